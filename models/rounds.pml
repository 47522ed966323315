/* Rounds as sessions: coordinator, clients and switch, each killed at any step.

   WHAT IS MODELLED. Two rounds of federated learning. The coordinator makes each attempt at
   a round a session with fixed members and a number of its own. The members' clients send
   votes, learn the gia, send levels, learn the totals; the coordinator, as an observer,
   learns them too. Then it commits the session in its journal, or gives it up: aborted.
   Any process may be killed at any step. The coordinator keeps its journal, a client its
   disk, the switch nothing. Messages may be lost, late and doubled.

   WHAT IS SHOWN, for everything that can happen within the bounds below:
   1 nothing lost, nothing twice: every entry of every update is counted in exactly one
     committed session, or is still in its client's hands (function `check`);
   2 a round is committed in one session; all clients that apply a round apply that
     session's mean, the same for all, and none before it is committed;
   3 what a client repeats after a restart is what it sent before, bit for bit;
   4 a client trains on the model that the rounds before have made, whatever it missed.

   NOT IN IT: slots and packets (slots.pml): the switch counts whole votes and levels.
   Disks that are lost or lie about syncing. Liveness: a coordinator that is killed for
   ever commits nothing; -DWITNESS only shows that both rounds can be committed with all.
   Keys, cookies and forged messages. The numbers of an update: it has two entries, and
   each is there or is not. Two jobs. More rounds, clients, sessions than the bounds.

   HOW TO READ PROMELA. A proctype is a process; all processes take steps in any order.
   `do :: a -> x :: b -> y od` repeats: it takes any one branch whose first statement can
   be executed, and SPIN tries them all. `d_step { a -> x; y }` is one such branch that is
   one step: nobody is killed inside it, as nobody is inside one synced record. An assert
   that fails is a counterexample. There is no randomness and no time: deadlines and kills
   come whenever they like. printf speaks only when a counterexample is told.

   A MESSAGE IS NEVER USED UP. The network is a few sets that only grow. What was sent may
   arrive at any later time, any number of times, or never. A kill between a write and the
   message after it is therefore a message that never arrives: write and send are one step.

   SETS are bits of a byte: of clients 0..2, of sessions 1..4, and a sum is the set of the
   clients that it counts. Choices of a number are spelled out, one branch each, by the
   macros EACH_CLIENT, EACH_SESSION and EACH_GROUP: SPIN is faster with constants. */

#ifndef CLIENTS
#define CLIENTS 2               /* 1..3 */
#endif
#ifndef SESSIONS
#define SESSIONS 2              /* 1..4: attempts, both rounds together */
#endif
#ifndef COORDINATORS
#define COORDINATORS 1          /* 2: two on one journal, although it is locked */
#endif
#define ROUNDS 2
#if COORDINATORS == 1
#define EPOCHS 1                /* epochs then make no difference: each start takes this */
#else
#define EPOCHS 3                /* starts of coordinators */
#endif

#define BIT(i) (1 << (i))
#define IN(set, i) (((set) >> (i)) & 1)
#define ALL_CLIENTS (BIT(CLIENTS) - 1)

#if CLIENTS == 1
#define EACH_CLIENT(act) act(0)
#define EACH_GROUP(act) act(1)
#elif CLIENTS == 2
#define EACH_CLIENT(act) act(0) act(1)
#define EACH_GROUP(act) act(1) act(2) act(3)
#else
#define EACH_CLIENT(act) act(0) act(1) act(2)
#define EACH_GROUP(act) act(1) act(2) act(3) act(4) act(5) act(6) act(7)
#endif
#if SESSIONS == 1
#define EACH_SESSION(act) act(1)
#elif SESSIONS == 2
#define EACH_SESSION(act) act(1) act(2)
#elif SESSIONS == 3
#define EACH_SESSION(act) act(1) act(2) act(3)
#else
#define EACH_SESSION(act) act(1) act(2) act(3) act(4)
#endif
#if EPOCHS == 1
#define EACH_EPOCH(act) act(1)
#else
#define EACH_EPOCH(act) act(1) act(2) act(3)
#endif

/* Updates. Round r's update has the entries 2r - 2 and 2r - 1. A gia, 0 or 1, chooses the
   even or the odd entries: of the update and of what earlier rounds left in the residual. */
#define UPDATE(r) (3 << (2 * (r) - 2))
#define CHOSEN(gia) (5 << (gia))
#define UNKNOWN 2               /* in place of a gia */

/* Models. A model is the set of the rounds whose means it has, round r as bit r - 1. */
#define MODEL_BEFORE(r) (BIT((r) - 1) - 1)

/* The network. Sent by the coordinator: */
byte opened;                    /* sessions whose OPEN and START were sent, with these: */
byte members[SESSIONS + 1], round_of[SESSIONS + 1], epoch_of[SESSIONS + 1];
byte outcomes[SESSIONS + 1];    /* START's word: which sessions before it are committed */
byte end_committed;             /* sessions of which END said: committed */
byte end_aborted[EPOCHS + 1];   /* the same for aborted, by the epoch of who said it */
/* by clients: */
byte votes[SESSIONS + 1], levels[SESSIONS + 1];     /* who sent them */
byte content[(SESSIONS + 1) * CLIENTS];             /* the entries in a client's levels */
#define CONTENT(s, c) content[(s) * CLIENTS + (c)]
/* by the switch: */
byte gia_told;                  /* sessions whose votes were answered */
byte totals[SESSIONS + 1];      /* set of the sums that were answered; one, if all is well */
byte gia[SESSIONS + 1];         /* what the votes of a session say; OPEN draws it, but a
                                   client knows it from the switch's answer alone */
#ifdef ABORT_IS_OUTCOME
byte aborts;                    /* sessions for which the switch sent ABORT */
#endif

/* The coordinator's journal. */
byte journal_number, journal_epoch;                 /* the last session and epoch taken */
byte journal_committed;                             /* committed sessions, in one record */
byte journal_total[SESSIONS + 1];                   /* with their totals */

/* The switch. */
byte registers, votes_in, levels_in;                /* the session, and who is in */

/* Each client's disk. */
byte corrected[CLIENTS];        /* update + residual: what it holds of what it made */
byte session[CLIENTS];          /* the session it takes part in, 0: none */
byte last[CLIENTS];             /* the last session it took part in */
byte saved_gia[CLIENTS];
byte model[CLIENTS];

/* Ghosts: nobody in the model reads them, only the claims do. */
byte made[CLIENTS];             /* entries of all updates that the client ever made */
byte committed_as[ROUNDS + 1];  /* round -> its committed session */
byte applied_as[ROUNDS + 1];    /* round -> the session whose mean was applied early */
byte current;                   /* the session that the coordinator is in */

byte cl, se, count, held, excused;                  /* scratch: 0 between the steps */

/* FORGETS_EARLY and JOURNAL_AFTER_END let clients forget entries before the commit. That
   alone is no error yet if the session does get committed: so that SPIN finds what is
   really lost, they are excused while it still can be. */
#if defined(FORGETS_EARLY) || defined(JOURNAL_AFTER_END)
#define EXCUSE if :: current -> excused = CONTENT(current, cl) & ~(held | count) \
                  :: else -> skip fi
#else
#define EXCUSE skip
#endif

/* Promise 1, after every step that could break it: for each client, what is in committed
   sums and what it holds do not overlap and are, together, all that it made. A client that
   was not told yet that its session is committed still has the entries on its disk: they
   are not in its hands any more, because being told will take them away. */
inline check() {
    cl = 0;
    do
    :: cl < CLIENTS ->
        count = 0; held = corrected[cl]; excused = 0; se = 1;
        do
        :: se <= SESSIONS ->
            if
            :: IN(journal_committed, se) && IN(journal_total[se], cl) ->
                assert(!(count & CONTENT(se, cl)));
                count = count | CONTENT(se, cl)
            :: else -> skip
            fi;
            se++
        :: else -> break
        od;
        if
        :: session[cl] && IN(journal_committed, session[cl]) ->
            held = held & ~CHOSEN(gia[session[cl]])
        :: else -> skip
        fi;
        EXCUSE;
        assert(!(held & count));                            /* nothing twice */
        assert((held | count | excused) == made[cl]);       /* nothing lost */
        cl++
    :: else -> break
    od;
    cl = 0; se = 0; count = 0; held = 0; excused = 0
}

/* ------------------------------------------------------------------ the coordinator */

#ifdef OLD_EPOCH_COMMITS
#define EPOCH_HOLDS true
#else
#define EPOCH_HOLDS (epoch == journal_epoch)
#endif

/* The number of a new session is synced to the journal before OPEN. */
#ifdef NUMBER_REUSED            /* the first one that is not committed */
#define NUMBERS_LEFT (!IN(journal_committed, SESSIONS))
#define TAKE_NUMBER mine = 1; \
    do :: journal_committed >> mine -> mine++ :: else -> break od; \
    journal_number = (journal_number < mine -> mine : journal_number)
#else
#define NUMBERS_LEFT (journal_number < SESSIONS)
#define TAKE_NUMBER journal_number++; mine = journal_number
#endif

#define OPEN(group, its_gia) \
    :: d_step { epoch && mine == 0 && NUMBERS_LEFT && committed_as[ROUNDS] == 0 && \
                EPOCH_HOLDS -> \
        TAKE_NUMBER; \
        current = mine; \
        members[mine] = group; gia[mine] = its_gia; epoch_of[mine] = epoch; \
        round_of[mine] = (committed_as[1] -> 2 : 1); \
        outcomes[mine] = journal_committed; \
        printf("coordinator %d opens session %d, round %d, client set %d\n", epoch, mine, \
            round_of[mine], group); \
        opened = opened | BIT(mine) }
#define OPEN_EVEN(group) OPEN(group, 0)
#define OPEN_ODD(group) OPEN(group, 1)

#define OBSERVE(sum) \
    :: d_step { mine && observed == 0 && IN(totals[mine], sum) -> \
        printf("coordinator %d observes the totals, of client set %d\n", epoch, sum); \
        observed = sum }

#ifdef JOURNAL_AFTER_END
#define MAY_COMMIT said_end
#else
#define MAY_COMMIT true
#endif

#ifdef WITNESS                  /* not a claim: SPIN must find the run where it fails */
#define SEE_IT_END \
    assert(committed_as[ROUNDS] == 0 || observed != ALL_CLIENTS)
#else
#define SEE_IT_END skip
#endif

active [COORDINATORS] proctype Coordinator() {
    byte epoch;                 /* memory: 0 while it does not run */
    byte mine, observed;        /* its session; the totals it observed, 0: none yet */
    bit said_end;
    do
    :: d_step {                 /* starts; whatever is not committed is aborted, for ever */
        epoch == 0 && (COORDINATORS == 1 || journal_epoch < EPOCHS) ->
        journal_epoch = (COORDINATORS == 1 -> 1 : journal_epoch + 1);
        epoch = journal_epoch;
        printf("coordinator %d starts\n", epoch);
        end_aborted[epoch] = end_aborted[epoch] | (opened & ~journal_committed) }
    EACH_GROUP(OPEN_EVEN)
    EACH_GROUP(OPEN_ODD)
    EACH_GROUP(OBSERVE)
#ifdef JOURNAL_AFTER_END
    :: d_step { mine && observed && !said_end ->
        printf("coordinator %d says END (committed) of session %d\n", epoch, mine);
        end_committed = end_committed | BIT(mine); said_end = 1 }
#endif
    :: d_step {                 /* commits: mean and commit are one record */
        mine && observed && MAY_COMMIT && !IN(journal_committed, mine) && EPOCH_HOLDS ->
        journal_committed = journal_committed | BIT(mine);
        journal_total[mine] = observed;
        printf("coordinator %d commits session %d\n", epoch, mine);
        assert(committed_as[round_of[mine]] == 0);
        assert(applied_as[round_of[mine]] == 0 || applied_as[round_of[mine]] == mine);
        committed_as[round_of[mine]] = mine;
        SEE_IT_END;
        check() }
    :: d_step {                 /* tells its members; goes on */
        mine && IN(journal_committed, mine) ->
        printf("coordinator %d says END (committed) of session %d\n", epoch, mine);
        end_committed = end_committed | BIT(mine);
        mine = 0; current = 0; observed = 0; said_end = 0 }
    :: d_step {                 /* gives up: a deadline, the switch's ABORT or ERROR */
        mine && !IN(journal_committed, mine) && !said_end ->
        printf("coordinator %d says END (aborted) of session %d\n", epoch, mine);
        end_aborted[epoch] = end_aborted[epoch] | BIT(mine);
        mine = 0; current = 0; observed = 0;
        check() }
#ifdef SESSION_REJOINED
    :: d_step { epoch && mine == 0 && journal_number && IN(opened, journal_number) &&
                !IN(journal_committed, journal_number) ->
        mine = journal_number; current = mine;
        printf("coordinator %d rejoins session %d\n", epoch, mine) }
#endif
    :: d_step { epoch ->        /* is killed */
        printf("coordinator %d is killed\n", epoch);
        epoch = 0; mine = 0; current = 0; observed = 0; said_end = 0;
#ifdef COMMIT_WITHOUT_MEAN      /* the totals were in its memory alone */
        do
        :: se <= SESSIONS -> journal_total[se] = 0; se++
        :: else -> break
        od;
#endif
        check() }
    od
}

/* ----------------------------------------------------------------------- the switch */

#define SWITCH_OPENS(s) \
    :: d_step { IN(opened, s) && registers != s -> \
        printf("switch opens session %d\n", s); \
        registers = s; votes_in = 0; levels_in = 0 }
#define COUNT_VOTES(c) \
    :: d_step { registers && IN(votes[registers], c) && !IN(votes_in, c) -> \
        printf("switch counts the votes of client %d\n", c); \
        votes_in = votes_in | BIT(c) }
#define COUNT_LEVELS(c) \
    :: d_step { registers && IN(levels[registers], c) && !IN(levels_in, c) -> \
        printf("switch counts the levels of client %d\n", c); \
        levels_in = levels_in | BIT(c) }

/* The switch has room for one session here; any OPEN, late or doubled, makes it forget the
   one before. That it forgets more than a real one does makes the claims stronger. */
active proctype Switch() {
#ifdef PARTIAL_SUMS
    bit was_killed;
#endif
    do
    EACH_SESSION(SWITCH_OPENS)
    EACH_CLIENT(COUNT_VOTES)
    EACH_CLIENT(COUNT_LEVELS)
    :: d_step {
        registers && !IN(gia_told, registers) &&
        (votes_in & members[registers]) == members[registers] ->
        printf("switch answers the gia of session %d\n", registers);
        gia_told = gia_told | BIT(registers) }
    :: d_step {
        registers && (levels_in & members[registers]) == members[registers] &&
        !IN(totals[registers], members[registers]) ->
        printf("switch answers the totals of session %d\n", registers);
        totals[registers] = totals[registers] | BIT(members[registers]) }
#ifdef PARTIAL_SUMS             /* after a restart it answers with those who came */
    :: d_step { registers && was_killed && levels_in ->
        printf("switch answers the totals of client set %d alone\n", levels_in);
        totals[registers] = totals[registers] | BIT(levels_in) }
    :: d_step { registers ->
        printf("switch is killed\n");
        registers = 0; votes_in = 0; levels_in = 0; was_killed = 1 }
#endif
#ifdef ABORT_IS_OUTCOME
    :: d_step { registers && !IN(aborts, registers) ->
        printf("switch says ABORT of session %d\n", registers);
        aborts = aborts | BIT(registers);
        registers = 0; votes_in = 0; levels_in = 0 }
#endif
    :: d_step { registers ->    /* is killed; or the lease ends, CLOSE, ABORT: it forgets */
        printf("switch is killed\n");
        registers = 0; votes_in = 0; levels_in = 0 }
    od
}

/* ---------------------------------------------------------------------- the clients */

/* Client c is told how its session ended: it takes what was sent out of what it holds, or
   keeps all. The new state is computed from the saved one. */
#ifdef JOURNAL_AFTER_END
#define IS_RIGHT(s) true
#else
#define IS_RIGHT(s) (committed_as[round_of[s]] == s && \
                     (mean == 0 || mean == journal_total[s]))
#endif
inline settle(is_committed) {
    if
    :: is_committed -> printf("client %d hears: session %d is committed\n", c, session[c])
    :: else -> printf("client %d hears: session %d is aborted\n", c, session[c])
    fi;
    if
    :: is_committed ->
        assert(IS_RIGHT(session[c]));                      /* promise 2 */
        if                                          /* what it sent was chosen by: */
        :: saved_gia[c] != UNKNOWN ->
            corrected[c] = corrected[c] & ~CHOSEN(saved_gia[c])
        :: saved_gia[c] == UNKNOWN && known != UNKNOWN ->
            corrected[c] = corrected[c] & ~CHOSEN(known)
        :: else -> skip                             /* it cannot tell, and keeps all */
        fi;
        if
        :: mean ->
            assert(model[c] == MODEL_BEFORE(round_of[session[c]]));
            model[c] = MODEL_BEFORE(round_of[session[c]] + 1)
        :: else -> skip                             /* the next START brings the model */
        fi
    :: else -> skip
    fi;
    session[c] = 0; saved_gia[c] = UNKNOWN;
    phase = 0; known = UNKNOWN; mean = 0;
    check()
}

/* START names the outcome of the client's own last session, however old that is. */
#ifdef MODEL_NOT_SENT
#define TAKE_MODEL(s) skip
#else
#define TAKE_MODEL(s) \
    if \
    :: model[c] < MODEL_BEFORE(round_of[s]) -> model[c] = MODEL_BEFORE(round_of[s]) \
    :: else -> skip                                 /* it made that model itself */ \
    fi
#endif
#define HEAR_START(s) \
    :: d_step { IN(opened, s) && IN(members[s], c) && session[c] && session[c] < s && \
                epoch_of[s] >= epoch_of[session[c]] -> \
        settle(IN(outcomes[s], session[c])) } \
    :: d_step { IN(opened, s) && IN(members[s], c) && !session[c] && s > last[c] -> \
        session[c] = s; last[c] = s; phase = 1; \
        printf("client %d begins session %d\n", c, s); \
        TAKE_MODEL(s); \
        assert(model[c] == MODEL_BEFORE(round_of[s]));      /* promise 4 */ \
        if                                          /* trains once a round */ \
        :: !(made[c] & UPDATE(round_of[s])) -> \
            made[c] = made[c] | UPDATE(round_of[s]); \
            corrected[c] = corrected[c] | UPDATE(round_of[s]) \
        :: else -> skip                             /* another attempt */ \
        fi; \
        check() }
#define HEAR_ABORTED(e) \
    :: d_step { session[c] && IN(end_aborted[e], session[c]) && \
                e >= epoch_of[session[c]] -> settle(false) }

#if defined(FORGETS_EARLY)
#define HAVE_MEAN corrected[c] = corrected[c] & ~CHOSEN(known); session[c] = 0; \
    saved_gia[c] = UNKNOWN; phase = 0; known = UNKNOWN; mean = 0; check()
#elif defined(APPLIED_EARLY)
#define HAVE_MEAN applied_as[round_of[session[c]]] = session[c]
#else
#define HAVE_MEAN skip
#endif
#define HEAR_TOTALS(sum) \
    :: d_step { phase == 3 && IN(totals[session[c]], sum) -> \
        printf("client %d has the mean of session %d, of client set %d\n", c, session[c], \
            sum); \
        mean = sum; phase = 4; HAVE_MEAN }

active [CLIENTS] proctype Client() {
    byte c;                     /* its number */
    byte phase;                 /* memory: 0 waits for START, 1 votes, 2 has the gia,
                                   3 has sent levels, 4 has the mean */
    byte known = UNKNOWN;       /* the gia */
    byte mean;                  /* the clients in its totals, 0: it has none */
    d_step { c = _pid - COORDINATORS - 1; saved_gia[c] = UNKNOWN };
    do
    EACH_SESSION(HEAR_START)    /* settles the session before, then saves and begins */
    :: d_step { session[c] && phase == 0 ->     /* restarted: goes on */
        printf("client %d goes on with session %d\n", c, session[c]);
        phase = 1 }
    :: d_step { phase == 1 && !IN(votes[session[c]], c) ->
        printf("client %d sends its votes in session %d\n", c, session[c]);
        votes[session[c]] = votes[session[c]] | BIT(c) }
    :: d_step { phase == 1 && IN(gia_told, session[c]) ->
        printf("client %d learns the gia of session %d\n", c, session[c]);
        known = gia[session[c]];
#ifndef GIA_NOT_SAVED
        saved_gia[c] = known;                       /* before its first levels */
#endif
        phase = 2 }
    :: d_step { phase == 2 ->
        printf("client %d sends its levels in session %d\n", c, session[c]);
        assert(!IN(levels[session[c]], c) ||        /* promise 3 */
               CONTENT(session[c], c) == (corrected[c] & CHOSEN(known)));
        levels[session[c]] = levels[session[c]] | BIT(c);
        CONTENT(session[c], c) = corrected[c] & CHOSEN(known);
        phase = 3 }
    EACH_GROUP(HEAR_TOTALS)
    :: d_step { session[c] && IN(end_committed, session[c]) -> settle(true) }
    EACH_EPOCH(HEAR_ABORTED)
#ifdef ABORT_IS_OUTCOME         /* the switch's word is taken for the coordinator's */
    :: d_step { session[c] && IN(aborts, session[c]) -> settle(false) }
#endif
    :: d_step { phase ->        /* is killed */
        printf("client %d is killed\n", c);
        phase = 0; known = UNKNOWN; mean = 0 }
    od
}
