/* Packets and slots: the members of one session ask the switch one exchange.

   WHAT IS MODELLED. Each member sends packets 0, 1, 2, ... Packet p of all members meets in
   slot p % SLOTS, where the switch adds it up. When all members are in, the switch answers
   everybody at once. A member repeats a packet while it has no answer. The last member is
   the observer (the coordinator): it contributes nothing, but counts in the slot's bitmap
   and gets every answer. The network may lose, reorder and double whatever is sent.

   WHAT IS SHOWN, for everything that can happen within the bounds below:
   1 every answer that leaves the switch is the sum of each client's packet, counted once;
     so all members get the same bytes, and repeats get them again;
   2 a packet is summed once, and no slot is taken for a later packet while any member,
     the observer too, still lacks the answer that the slot holds;
   3 with -DLIVENESS: if from some time on nothing is lost, every member gets all answers.

   NOT IN IT: restarts and sessions (rounds.pml), JOIN and credits, timers and their
   lengths (a repeat may come at any time), widths and what a sum says, answers of several
   parts, the change from one exchange to the next, kinds other than tally and sum.

   HOW TO READ PROMELA. A proctype is a process; all processes take steps in any order.
   `do :: a -> x :: b -> y od` repeats: it takes any one branch whose first statement can
   be executed, and SPIN tries them all. `if ... fi` is the same, once. A condition alone
   waits until it is true. `atomic { }` is one step, which may choose inside. An assert
   that fails is a counterexample. There is no randomness and no time: a state that some
   order of steps can reach is reached. printf speaks only when a counterexample is told;
   a skip beside it lets SPIN say whether the search ever came there.

   A MESSAGE IS NEVER USED UP. What a member has sent once may arrive at any later time,
   any number of times, or never. So `sent` is the network: one number a member. */

#ifndef CLIENTS
#define CLIENTS 3               /* 1..3: they contribute */
#endif
#ifndef OBSERVERS
#define OBSERVERS 1             /* 0 or 1 */
#endif
#ifndef SLOTS
#define SLOTS 4
#endif
#ifndef PACKETS
#define PACKETS 6               /* 1..7 */
#endif

#define MEMBERS (CLIENTS + OBSERVERS)
#define BIT(i) (1 << (i))
#define IN(set, i) (((set) >> (i)) & 1)
#define ALL_MEMBERS (BIT(MEMBERS) - 1)
#define ALL_CLIENTS (BIT(CLIENTS) - 1)
#define ALL_PACKETS (BIT(PACKETS) - 1)

/* Client m sends the level 4^m, so that a sum tells how often each was added, up to three
   times; the observer sends an empty packet. */
#define LEVEL(m) ((m) < CLIENTS -> BIT(2 * (m)) : 0)
#define EACH_CLIENT_ONCE (BIT(2 * CLIENTS) / 3)     /* 1, 1 + 4, 1 + 4 + 16 */

/* The mutants: each is a mistake that SPIN must find. Those of the window: */
#if defined(WINDOW_TOO_LARGE)
#define WINDOW (SLOTS / 2 + 1)
#else
#define WINDOW (SLOTS / 2)
#endif
#ifdef SLOT_REUSED_EARLY        /* a member goes on as soon as it has its own answer */
#define MAY_SEND(m, p) ((p) < SLOTS || IN(got[m], (p) - SLOTS))
#else
#define MAY_SEND(m, p) ((p) < OLDEST(m) + WINDOW)
#endif

/* When the switch takes a slot for complete: */
#define ONES(set) (IN(set, 0) + IN(set, 1) + IN(set, 2) + IN(set, 3))
#if defined(QUORUM)             /* the first members win, slot by slot */
#define COMPLETE(s) (ONES(counted[s]) >= MEMBERS - 1)
#elif defined(OBSERVER_NOT_COUNTED)
#define COMPLETE(s) ((counted[s] & ALL_CLIENTS) == ALL_CLIENTS)
#else
#define COMPLETE(s) (counted[s] == ALL_MEMBERS)
#endif

/* When the switch lets packet p into a slot that holds another one: */
#ifdef NO_STALE_CHECK           /* an older packet, too */
#define MAY_HOLD(s, p) (held[s] == 0 || COMPLETE(s))
#else
#define MAY_HOLD(s, p) (held[s] == 0 || (COMPLETE(s) && held[s] < p + 1))
#endif

/* Each member. */
byte sent[MEMBERS];             /* packets 0..sent-1 were sent */
byte got[MEMBERS];              /* set of packets whose answers it has */
#define LACKS(m, p) (!IN(got[m], p))
#define OLDEST(m) (LACKS(m, 0) -> 0 : (LACKS(m, 1) -> 1 : (LACKS(m, 2) -> 2 : \
    (LACKS(m, 3) -> 3 : (LACKS(m, 4) -> 4 : (LACKS(m, 5) -> 5 : \
    (LACKS(m, 6) -> 6 : 7)))))))                    /* the first packet without answer */

/* The switch. */
byte held[SLOTS];               /* packet in the slot, plus 1; 0 is a free slot */
byte counted[SLOTS];            /* bitmap of the members that are in */
byte total[SLOTS];

/* The network. */
byte answered;                  /* set of packets that were answered at least once */
bit calm;                       /* nothing is lost any more; stays 0 without LIVENESS */
#ifdef WAIT_ENDS
byte waited[MEMBERS];           /* set of packets for which a WAIT came */
#define REPEATS(m) (!IN(waited[m], OLDEST(m)))
#elif defined(NO_REPEATS)
#define REPEATS(m) false
#else
#define REPEATS(m) true
#endif

/* An answer on its way to member m arrives, or is lost. */
inline deliver(m, p) {
    if
    :: got[m] = got[m] | BIT(p); printf("  member %d gets the answer\n", m)
    :: !calm -> printf("  member %d does not get the answer\n", m)
    fi
}

/* Slot s is complete: its answer goes to everybody; any of them may not receive it. */
inline answer_all(s, p) {
    printf("  slot %d is complete, its total is %d\n", s, total[s]);
    assert(total[s] == EACH_CLIENT_ONCE);
    answered = answered | BIT(p);
    to = 0;
    do
    :: to < MEMBERS -> deliver(to, p); to++
    :: else -> break
    od;
    to = 0;
#ifdef SLOT_FREED_AT_ONCE
    held[s] = 0; counted[s] = 0; total[s] = 0;
#endif
}

/* Packet p of member m is added to its slot. */
inline count(m, p, s) {
    printf("  it is counted\n");
    counted[s] = counted[s] | BIT(m);
    total[s] = total[s] + LEVEL(m);
    if
    :: COMPLETE(s) -> answer_all(s, p)
    :: else -> skip
    fi
}

/* The slot held another packet, or none: from now on it holds p. */
inline take_over(p, s) {
    printf("  slot %d is taken for packet %d\n", s, p);
    assert(!IN(answered, p));                       /* p was not summed before */
    to = 0;
    do                                              /* nobody needs what goes */
    :: to < MEMBERS -> assert(held[s] == 0 || IN(got[to], held[s] - 1)); to++
    :: else -> break
    od;
    to = 0;
    held[s] = p + 1; counted[s] = 0; total[s] = 0
}

/* Packet p of member m is at the switch. */
inline arrive(m, p) {
    s = p % SLOTS;
    printf("packet %d of member %d arrives\n", p, m);
    if
    :: held[s] != p + 1 && MAY_HOLD(s, p) -> take_over(p, s)
    :: else -> skip
    fi;
    if
    :: held[s] != p + 1 ->          /* stale: a late copy; or busy: not complete yet */
        skip; printf("  it is dropped\n")
    :: held[s] == p + 1 && COMPLETE(s) ->           /* a repeat: answered again, to m */
        assert(total[s] == EACH_CLIENT_ONCE);
#ifndef REPEATS_UNANSWERED
        deliver(m, p)
#endif
    :: held[s] == p + 1 && !COMPLETE(s) && IN(counted[s], m) ->
#if defined(NO_DUPLICATE_CHECK)
        count(m, p, s)
#elif defined(WAIT_ENDS)
        printf("  WAIT: yours is counted\n");
        waited[m] = waited[m] | BIT(p)              /* m takes this for the last word */
#else
        skip; printf("  WAIT: yours is counted\n")
#endif
    :: held[s] == p + 1 && !COMPLETE(s) && !IN(counted[s], m) -> count(m, p, s)
    fi;
    s = 0
}

/* One process a member. What it sends arrives when the process Network delivers it. */
active [MEMBERS] proctype Member() {
    byte to, s, p;
    do
    :: atomic {                                     /* a new packet within the window */
        sent[_pid] < PACKETS && MAY_SEND(_pid, sent[_pid]) ->
        printf("member %d sends packet %d\n", _pid, sent[_pid]);
        sent[_pid] = sent[_pid] + 1
       }
#ifdef LIVENESS
    :: atomic {                     /* the timer repeats the oldest, and it does arrive */
        calm && OLDEST(_pid) < sent[_pid] && REPEATS(_pid) ->
        p = OLDEST(_pid);
        printf("member %d repeats packet %d\n", _pid, p);
        arrive(_pid, p);
        p = 0
       }
#endif
    :: got[_pid] == ALL_PACKETS -> break
    od
}

/* Delivers anything that was ever sent, whenever it likes. */
active proctype Network() {
    byte m, p, to, s;
    do
    :: atomic {                                     /* a packet, for the n-th time */
        select(m : 0 .. (MEMBERS - 1));
        select(p : 0 .. (PACKETS - 1));
        if
        :: p < sent[m] -> arrive(m, p)
        :: else -> skip
        fi;
        m = 0; p = 0
       }
    :: atomic {                                     /* a late copy of an answer */
        select(m : 0 .. (MEMBERS - 1));
        select(p : 0 .. (PACKETS - 1));
        if
        :: IN(answered, p) ->
            got[m] = got[m] | BIT(p);
            printf("member %d gets a late answer to packet %d\n", m, p)
        :: else -> skip
        fi;
        m = 0; p = 0
       }
#ifdef SWITCH_FORGETS           /* and goes on with the same session */
    :: atomic {
        printf("the switch forgets\n");
        do
        :: s < SLOTS -> held[s] = 0; counted[s] = 0; total[s] = 0; s++
        :: else -> break
        od;
        s = 0
       }
#endif
    od
}

#ifdef LIVENESS
/* At any time, the network may become calm for ever. Run with weak fairness (pan -f): a
   process that can take a step all the time takes one at some time. */
active proctype Weather() { atomic { calm = 1; printf("from now on nothing is lost\n") } }

#define GOT_ALL(m) (m >= MEMBERS || got[(m) % MEMBERS] == ALL_PACKETS)
ltl all_get_all { <> (GOT_ALL(0) && GOT_ALL(1) && GOT_ALL(2) && GOT_ALL(3)) }
#endif
