-- Wireshark's view of fediac's packets: fields by name, kinds and flags in words, and
-- what does not fit marked. The format is in docs/protocol.md; a new field or kind
-- there needs a line here. Runs on Lua 5.2 to 5.4: no bit operators, no integer division.

local MAGIC, VERSION = 0xFED1, 2
local HEADER_BYTES = 40
local EVERYONE = 0xFFFF
local END = 0xFFFFFFFF

local TALLY, MAX, SUM, BLOCK_SUM, INDEXED_SUM = 1, 2, 3, 4, 5
local OPEN, OPENED, CLOSE, CLOSED, JOIN, COOKIE, WELCOME = 16, 17, 18, 19, 20, 21, 22
local WAIT, ABORT, ERROR, ALIVE, STATUS, REPORT = 23, 24, 25, 26, 27, 28
local KINDS = {
  [TALLY] = "tally", [MAX] = "max", [SUM] = "sum", [BLOCK_SUM] = "block sum",
  [INDEXED_SUM] = "indexed sum", [OPEN] = "open", [OPENED] = "opened",
  [CLOSE] = "close", [CLOSED] = "closed", [JOIN] = "join", [COOKIE] = "cookie",
  [WELCOME] = "welcome", [WAIT] = "wait", [ABORT] = "abort", [ERROR] = "error",
  [ALIVE] = "alive", [STATUS] = "status", [REPORT] = "report",
}
local SETTINGS, ITEMS = 1, 2
local REASONS = {
  "settings differ",
  "items differ",
  "unknown session",
  "another version",
  "wrong key",
  "too many jobs",
  "too little memory",
  "too many members",
  "wrong payload",
  "an older epoch",
  "an older session",
  "no such member",
}
local ENDINGS = {
  "members are silent",
  "the coordinator is silent",
  "replaced by a newer session",
  "closed",
}
local ANSWER, OBSERVE, LAST, ANNOUNCE, NARROW, READ = 1, 2, 4, 8, 16, 32
local FLAGS = { "answer", "observe", "last", "announce", "narrow", "read" }

local fediac = Proto("fediac", "FediAC")
fediac.prefs.port = Pref.uint(
  "UDP port",
  0,
  "Packets to and from this port are fediac's, even those without its magic; 0: none. "
    .. "Others are told by magic and version"
)

local field = {
  magic = ProtoField.uint16("fediac.magic", "Magic", base.HEX),
  version = ProtoField.uint8("fediac.version", "Version"),
  kind = ProtoField.uint8("fediac.kind", "Kind", base.DEC, KINDS),
  session = ProtoField.uint64("fediac.session", "Session", base.HEX),
  exchange = ProtoField.uint16("fediac.exchange", "Exchange"),
  client = ProtoField.uint16("fediac.client", "Client"),
  packet = ProtoField.uint32("fediac.packet", "Packet"),
  aux = ProtoField.uint32("fediac.aux", "Aux", base.HEX),
  peak = ProtoField.float("fediac.peak", "Peak"),
  next_block = ProtoField.uint32("fediac.next_block", "Next block"),
  size = ProtoField.uint32("fediac.size", "Size of the sum"),
  next_packet = ProtoField.uint32("fediac.next_packet", "Next packet"),
  n_items = ProtoField.uint16("fediac.n_items", "Items"),
  threshold = ProtoField.uint16("fediac.threshold", "Threshold"),
  count = ProtoField.uint16("fediac.count", "Clients counted"),
  bits_up = ProtoField.uint8("fediac.bits_up", "Bits up"),
  bits = ProtoField.uint8("fediac.bits", "Bits"),
  flags = ProtoField.uint8("fediac.flags", "Flags", base.HEX),
  part = ProtoField.uint8("fediac.part", "Part"),
  tag = ProtoField.uint64("fediac.tag", "Tag", base.HEX),
  payload = ProtoField.bytes("fediac.payload", "Payload"),
  payload_bytes = ProtoField.uint32("fediac.payload_bytes", "Payload bytes"),
  reason = ProtoField.uint8("fediac.reason", "Reason", base.DEC, REASONS),
  held_kind = ProtoField.uint16("fediac.held.kind", "The switch's kind", base.DEC, KINDS),
  held_items = ProtoField.uint16("fediac.held.n_items", "The switch's items"),
  held_threshold = ProtoField.uint32("fediac.held.threshold", "The switch's threshold"),
  held_bits_up = ProtoField.uint8("fediac.held.bits_up", "The switch's bits up"),
  held_bits = ProtoField.uint8("fediac.held.bits", "The switch's bits"),
  held_narrow = ProtoField.bool("fediac.held.narrow", "The switch's indices are narrow"),
  held = ProtoField.uint64("fediac.held", "The switch has"),
  given = ProtoField.uint64("fediac.given", "The packet had"),
  cookie = ProtoField.uint64("fediac.cookie", "Cookie", base.HEX),
  job = ProtoField.uint64("fediac.job", "Job"),
  epoch = ProtoField.uint32("fediac.epoch", "Epoch"),
  lease = ProtoField.uint32("fediac.lease_ms", "Lease, ms"),
  silence = ProtoField.uint32("fediac.silence_ms", "Longest silence, ms"),
  room = ProtoField.uint16("fediac.room", "Payload of the session"),
  clients = ProtoField.uint16("fediac.n_clients", "Clients"),
  observers = ProtoField.uint16("fediac.n_observers", "Observers"),
  renewal = ProtoField.bool("fediac.is_renewal", "Keeps the lease only"),
  registers = ProtoField.uint32("fediac.register_bytes", "Register bytes"),
  credit = ProtoField.uint16("fediac.credit", "Credit"),
  counter = ProtoField.uint32("fediac.counter", "Join"),
  ending = ProtoField.uint8("fediac.ending", "Ending", base.DEC, ENDINGS),
  missing = ProtoField.uint16("fediac.missing", "Missing member"),
  uptime = ProtoField.uint64("fediac.uptime_ms", "Uptime, ms"),
  packets_in = ProtoField.uint64("fediac.packets_in", "Packets in"),
  packets_out = ProtoField.uint64("fediac.packets_out", "Packets out"),
  unsent = ProtoField.uint64("fediac.unsent", "Not sent"),
  jobs = ProtoField.uint16("fediac.n_jobs", "Jobs"),
  max_jobs = ProtoField.uint16("fediac.max_jobs", "Most jobs"),
  members = ProtoField.uint32("fediac.n_members", "Members"),
  used = ProtoField.uint32("fediac.used_bytes", "Register bytes in use"),
}

-- Control packets have fixed places behind the header: field, first byte, bytes.
local BODIES = {
  [OPEN] = {
    { "cookie", 0, 8 }, { "job", 8, 8 }, { "epoch", 16, 4 }, { "lease", 20, 4 },
    { "silence", 24, 4 }, { "room", 28, 2 }, { "clients", 30, 2 },
    { "observers", 32, 2 }, { "renewal", 34, 2 }, n_bytes = 36,
  },
  [OPENED] = { n_bytes = 0 },
  [CLOSE] = { { "cookie", 0, 8 }, { "job", 8, 8 }, { "epoch", 16, 4 }, n_bytes = 24 },
  [CLOSED] = { n_bytes = 0 },
  [JOIN] = { { "cookie", 0, 8 }, n_bytes = 8 },
  [COOKIE] = { { "cookie", 0, 8 }, n_bytes = 8 },
  [WELCOME] = {
    { "registers", 0, 4 }, { "silence", 4, 4 }, { "room", 8, 2 }, { "credit", 10, 2 },
    { "clients", 12, 2 }, { "observers", 14, 2 }, n_bytes = 16,
  },
  [ALIVE] = { n_bytes = 0 },
  [STATUS] = { { "cookie", 0, 8 }, n_bytes = 144 },
  [REPORT] = {
    { "uptime", 0, 8 }, { "packets_in", 8, 8 }, { "packets_out", 16, 8 },
    { "unsent", 24, 8 }, { "jobs", 32, 2 }, { "max_jobs", 34, 2 }, { "members", 36, 4 },
    { "registers", 40, 4 }, { "used", 44, 4 }, n_bytes = 144,
  },
}
-- Packets dropped, behind all else in a report.
for place, reason in ipairs({
  "foreign", "malformed", "unknown_session", "stranger", "stale", "busy", "duplicate",
  "mismatch", "registers", "tag", "key", "address",
}) do
  local name = "drops." .. reason
  field[name] = ProtoField.uint64("fediac." .. name, "Dropped: " .. reason)
  table.insert(BODIES[REPORT], { name, 40 + 8 * place, 8 })
end
local REFUSAL = { { "held", 0, 8 }, { "given", 8, 8 }, n_bytes = 16 }
local flag_fields = {}
for place, name in ipairs(FLAGS) do
  local mask = 2 ^ (place - 1)
  flag_fields[place] =
    ProtoField.bool("fediac.flags." .. name, name, 8, nil, math.floor(mask))
end

local all_fields = {}
for _, each in pairs(field) do
  table.insert(all_fields, each)
end
for _, each in ipairs(flag_fields) do
  table.insert(all_fields, each)
end
fediac.fields = all_fields

local function malformed(name, text)
  local group, severity = expert.group.MALFORMED, expert.severity.ERROR
  return ProtoExpert.new("fediac." .. name .. ".wrong", text, group, severity)
end

local wrong_magic = malformed("magic", "Wrong magic")
local wrong_version = malformed("version", "Wrong version")
local wrong_kind = malformed("kind", "Unknown kind")
local wrong_length = malformed("length", "Wrong length")
fediac.experts = { wrong_magic, wrong_version, wrong_kind, wrong_length }

-- Whether an error is about a control packet or a whole session, not an exchange.
local function is_refusal(header)
  return header.kind == ERROR and header.part > ITEMS
end

-- What stands behind the header of a control packet, none if there is no such place.
local function body_of(header, n_bytes)
  if is_refusal(header) then
    return n_bytes > 8 and REFUSAL or { n_bytes = 0 }
  end
  return BODIES[header.kind]
end

-- The members whose bits are set in an abort.
local function read_missing(tvb)
  local missing = {}
  for place = HEADER_BYTES, tvb:len() - 1 do
    local byte = tvb(place, 1):uint()
    for bit = 0, 7 do
      if byte % 2 == 1 then
        table.insert(missing, 8 * (place - HEADER_BYTES) + bit)
      end
      byte = math.floor(byte / 2)
    end
  end
  return missing
end

local function has(flags, flag)
  return flags % (2 * flag) >= flag
end

local function counted(number, noun)
  return string.format(number == 1 and "%d %s" or "%d %ss", number, noun)
end

-- The bits of an index into an indexed sum: those of its largest one, at least one.
local function index_bits(header)
  if not has(header.flags, NARROW) then
    return 32
  end
  local bits, largest = 0, header.aux - 1
  while largest >= 1 do
    bits, largest = bits + 1, math.floor(largest / 2)
  end
  return math.max(1, bits)
end

-- Whether the answer to one packet may take several.
local function has_parts(header)
  local is_sum = header.kind == SUM and has(header.flags, ANSWER)
  return is_sum and header.bits_up ~= header.bits
end

-- Whether a packet is about a range of an indexed sum's addresses, not about pairs.
local function is_range(header)
  local is_answer = header.kind == INDEXED_SUM and has(header.flags, ANSWER)
  return is_answer or has(header.flags, READ)
end

local function lane_bits(header)
  return has(header.flags, ANSWER) and header.bits or header.bits_up
end

-- The bits of an item; none where packets have no payload, whatever n_items says.
local function item_bits(header)
  local kind = header.kind
  if kind == TALLY then
    return 1
  elseif kind == SUM then
    return lane_bits(header)
  elseif kind == BLOCK_SUM then
    return 32
  elseif kind == INDEXED_SUM then
    return index_bits(header) + header.bits
  end
  return 0
end

local function read_header(tvb)
  return {
    kind = tvb(3, 1):uint(),
    exchange = tvb(12, 2):uint(),
    client = tvb(14, 2):uint(),
    packet = tvb(16, 4):uint(),
    aux = tvb(20, 4):uint(),
    n_items = tvb(24, 2):uint(),
    threshold_or_count = tvb(26, 2):uint(),
    bits_up = tvb(28, 1):uint(),
    bits = tvb(29, 1):uint(),
    flags = tvb(30, 1):uint(),
    part = tvb(31, 1):uint(),
  }
end

local function say_next(header)
  return header.aux == END and "END" or string.format("%d", header.aux)
end

-- What an error says of the exchange that runs.
local function say_held(header)
  local kind, aux = header.n_items, header.aux
  if header.part == ITEMS then
    return aux > 0 and string.format("size %d", aux) or counted(kind, "item")
  end
  local name = KINDS[kind] or string.format("kind %d", kind)
  local high, low = math.floor(aux / 256), aux % 256
  if kind == TALLY then
    return string.format("%s, threshold %d", name, aux)
  elseif kind == SUM then
    return string.format("%s, lanes of %d bits, sums of %d", name, high, low)
  elseif kind == INDEXED_SUM then
    local indices = high > 0 and "narrow" or "32-bit"
    return string.format("%s, %s indices, levels of %d bits", name, indices, low)
  end
  return name
end

local function say_items(header, tvb)
  local kind, n_items = header.kind, header.n_items
  local is_answer = has(header.flags, ANSWER)
  if kind == TALLY then
    return is_answer and string.format("gia of %d", n_items) or counted(n_items, "vote")
  elseif kind == MAX then
    return string.format("peak %g", tvb(20, 4):float())
  elseif kind == SUM then
    local bits = lane_bits(header)
    return string.format("%s of %s", counted(n_items, "lane"), counted(bits, "bit"))
  elseif kind == BLOCK_SUM then
    if has(header.flags, ANNOUNCE) then
      return "first block " .. say_next(header)
    end
    return string.format("%s, next block %s", counted(n_items, "level"), say_next(header))
  end
  if has(header.flags, READ) then
    return string.format("size %d", header.aux)
  end
  local last = has(header.flags, LAST) and ", last" or ""
  local bits = index_bits(header)
  local pairs_ = counted(n_items, "pair")
  return string.format("%s of %d + %d bits%s", pairs_, bits, header.bits, last)
end

-- Whether a packet brings back the cookie that begins its body.
local function say_cookie(at)
  return at(0, 8):uint64() == UInt64(0) and "" or ", with cookie"
end

local function say_members(at, first)
  local n_clients, n_observers = at(first, 2):uint(), at(first + 2, 2):uint()
  return counted(n_clients, "client") .. ", " .. counted(n_observers, "observer")
end

-- What a control packet says, behind its kind and who it is from or to.
local CONTROLS = {
  [OPEN] = function(_, at)
    local job, epoch, payload = at(8, 8):uint64(), at(16, 4):uint(), at(28, 2):uint()
    local members, line = say_members(at, 30), "job %s epoch %d, %s, payload %d%s%s"
    local renewal = at(34, 2):uint() == 0 and "" or ", lease only"
    return string.format(line, job, epoch, members, payload, renewal, say_cookie(at))
  end,
  [OPENED] = function(header)
    return string.format("%d register bytes, credit %d", header.aux, header.n_items)
  end,
  [CLOSE] = function(_, at)
    local job, epoch = at(8, 8):uint64(), at(16, 4):uint()
    return string.format("job %s epoch %d%s", job, epoch, say_cookie(at))
  end,
  [JOIN] = function(header, at)
    local join, payload = header.aux, header.n_items
    return string.format("join %d, payload %d%s", join, payload, say_cookie(at))
  end,
  [WELCOME] = function(header, at)
    local payload, credit = at(8, 2):uint(), at(10, 2):uint()
    local members, line = say_members(at, 12), "join %d, %s, payload %d, credit %d"
    return string.format(line, header.aux, members, payload, credit)
  end,
  [STATUS] = function(_, at)
    return "how does the switch do" .. say_cookie(at)
  end,
  [REPORT] = function(_, at)
    local members, max_jobs = counted(at(36, 4):uint(), "member"), at(34, 2):uint()
    return string.format("%d of %d jobs, %s", at(32, 2):uint(), max_jobs, members)
  end,
}

local function say_refusal(header, tvb)
  local reason = REASONS[header.part] or string.format("reason %d", header.part)
  if tvb:len() < HEADER_BYTES + REFUSAL.n_bytes then
    return reason
  end
  local held, given = tvb(HEADER_BYTES, 8):uint64(), tvb(HEADER_BYTES + 8, 8):uint64()
  return string.format("%s, the switch has %s, the packet had %s", reason, held, given)
end

local function say_abort(header, tvb)
  local ending = ENDINGS[header.part] or string.format("ending %d", header.part)
  local missing = table.concat(read_missing(tvb), ", ")
  return missing == "" and ending or ending .. ": " .. missing
end

-- What a control packet says, none if the capture did not keep enough of it.
local function say_control(header, tvb)
  if is_refusal(header) then
    return say_refusal(header, tvb)
  elseif header.kind == ABORT then
    return say_abort(header, tvb)
  end
  local say, body = CONTROLS[header.kind], BODIES[header.kind]
  if say and tvb:len() >= HEADER_BYTES + body.n_bytes then
    return say(header, function(first, n_bytes)
      return tvb(HEADER_BYTES + first, n_bytes)
    end)
  end
end

local function say_who(header)
  if header.kind == STATUS or header.kind == REPORT then
    return has(header.flags, ANSWER) and "to who asked" or "anybody"
  end
  local is_between_two = BODIES[header.kind] or is_refusal(header)
  if header.client == EVERYONE and is_between_two then
    return has(header.flags, ANSWER) and "to the coordinator" or "coordinator"
  elseif header.client == EVERYONE then
    return "to everyone"
  end
  local to = has(header.flags, ANSWER) and "to " or ""
  local role = has(header.flags, OBSERVE) and "observer" or "client"
  return string.format("%s%s %d", to, role, header.client)
end

-- The line of the info column.
local function say(header, tvb)
  local kind = KINDS[header.kind]
  local name = kind and kind:upper() or string.format("kind %d", header.kind)
  if BODIES[header.kind] or header.kind == ABORT or is_refusal(header) then
    local said = say_control(header, tvb)
    local line = string.format("%s %s", name, say_who(header))
    return said and string.format("%s: %s", line, said) or line
  end
  local noun = is_range(header) and "range" or "packet"
  local number = string.format("%s %d", noun, header.packet)
  if has_parts(header) then
    number = string.format("%s part %d", number, header.part)
  end
  local line = string.format(
    "%s %s %s of exchange %d", name, say_who(header), number, header.exchange
  )
  if header.kind == WAIT then
    line = string.format("%s: %d are in", line, header.threshold_or_count)
    local says_next = header.aux > 0 or is_range(header)
    return says_next and string.format("%s, packet %s is next", line, say_next(header)) or line
  elseif header.kind == ERROR then
    local reason = REASONS[header.part]
    if not reason then
      return string.format("%s: reason %d", line, header.part)
    end
    return string.format("%s: %s, the switch has %s", line, reason, say_held(header))
  elseif not kind then
    return line
  end
  line = line .. ", " .. say_items(header, tvb)
  if has(header.flags, ANSWER) then
    return string.format("%s, %s", line, counted(header.threshold_or_count, "client"))
  elseif header.kind == TALLY then
    return string.format("%s, threshold %d", line, header.threshold_or_count)
  end
  return line
end

local function add_error(header, tvb, reason_tree, aux_tree, items_tree)
  reason_tree:add(field.reason, tvb(31, 1))
  if header.part == ITEMS then
    if header.aux > 0 then
      aux_tree:add(field.size, tvb(20, 4))
    else
      items_tree:add(field.held_items, tvb(24, 2))
    end
  elseif header.part == SETTINGS then
    local kind = header.n_items
    items_tree:add(field.held_kind, tvb(24, 2))
    if kind == TALLY then
      aux_tree:add(field.held_threshold, tvb(20, 4))
    elseif kind == SUM then
      aux_tree:add(field.held_bits_up, tvb(22, 1))
      aux_tree:add(field.held_bits, tvb(23, 1))
    elseif kind == INDEXED_SUM then
      aux_tree:add(field.held_narrow, tvb(22, 1))
      aux_tree:add(field.held_bits, tvb(23, 1))
    end
  end
end

local function add_client(header, tvb, tree)
  local item = tree:add(field.client, tvb(14, 2))
  if header.client == EVERYONE then
    item:append_text(" (everyone)")
  end
end

local function add_aux(header, tvb, tree)
  local item = tree:add(field.aux, tvb(20, 4))
  if header.kind == TALLY or header.kind == MAX then
    item:add(field.peak, tvb(20, 4))
  elseif header.kind == BLOCK_SUM then
    local following = item:add(field.next_block, tvb(20, 4))
    if header.aux == END then
      following:append_text(" (END: no block follows)")
    end
  elseif header.kind == INDEXED_SUM then
    item:add(field.size, tvb(20, 4))
  elseif header.kind == OPENED then
    item:add(field.registers, tvb(20, 4))
  elseif header.kind == JOIN or header.kind == WELCOME then
    item:add(field.counter, tvb(20, 4))
  elseif header.kind == WAIT and (header.aux > 0 or is_range(header)) then
    item:add(field.next_packet, tvb(20, 4))
  end
  return item
end

local function add_flags(header, tvb, tree)
  local item = tree:add(field.flags, tvb(30, 1))
  local names = {}
  for place, name in ipairs(FLAGS) do
    item:add(flag_fields[place], tvb(30, 1))
    if has(header.flags, 2 ^ (place - 1)) then
      table.insert(names, name)
    end
  end
  item:append_text(" (" .. (names[1] and table.concat(names, ", ") or "none") .. ")")
end

local function add_header(header, tvb, tree)
  local kind_item = tree:add(field.kind, tvb(3, 1))
  if not KINDS[header.kind] then
    kind_item:add_proto_expert_info(
      wrong_kind, string.format("kind must be one of fediac's, got %d", header.kind)
    )
  end
  tree:add(field.session, tvb(4, 8))
  tree:add(field.exchange, tvb(12, 2))
  add_client(header, tvb, tree)
  tree:add(field.packet, tvb(16, 4))
  local aux_tree = add_aux(header, tvb, tree)
  local items_tree = tree:add(field.n_items, tvb(24, 2))
  if header.kind == OPENED then
    items_tree:add(field.credit, tvb(24, 2))
  elseif header.kind == JOIN then
    items_tree:add(field.room, tvb(24, 2))
  end
  local is_answer = has(header.flags, ANSWER)
  tree:add(is_answer and field.count or field.threshold, tvb(26, 2))
  tree:add(field.bits_up, tvb(28, 1))
  tree:add(field.bits, tvb(29, 1))
  add_flags(header, tvb, tree)
  local part_tree = tree:add(field.part, tvb(31, 1))
  if header.kind == ERROR then
    add_error(header, tvb, part_tree, aux_tree, items_tree)
  elseif header.kind == ABORT then
    part_tree:add(field.ending, tvb(31, 1))
  end
  tree:add(field.tag, tvb(32, 8))
end

-- The fields behind the header of a control packet.
local function add_body(header, tvb, tree)
  if header.kind == ABORT then
    for _, member in ipairs(read_missing(tvb)) do
      tree:add(field.missing, tvb(HEADER_BYTES + math.floor(member / 8), 1), member)
    end
    return
  end
  for _, place in ipairs(body_of(header, tvb:len() - HEADER_BYTES) or {}) do
    local name, first, n_bytes = table.unpack(place)
    if tvb:len() >= HEADER_BYTES + first + n_bytes then
      tree:add(field[name], tvb(HEADER_BYTES + first, n_bytes))
    end
  end
end

-- What is wrong with the length of a payload, if something is.
local function say_misfit(header, tvb, n_bytes)
  if header.kind == ABORT then
    local is_whole = tvb:len() == tvb:reported_len()
    local ends_in_0 = is_whole and n_bytes > 0 and tvb(tvb:len() - 1, 1):uint() == 0
    local n_set = #read_missing(tvb)
    if ends_in_0 or is_whole and n_set ~= header.n_items then
      local said = "payload must have a bit for each of %s and end in one, got %d in %s"
      local members = counted(header.n_items, "member")
      return string.format(said, members, n_set, counted(n_bytes, "byte"))
    end
    return nil
  end
  local expected = math.ceil(header.n_items * item_bits(header) / 8)
  local body = body_of(header, n_bytes)
  if body then
    expected = header.kind == JOIN and math.max(8, header.n_items) or body.n_bytes
  end
  if KINDS[header.kind] and n_bytes ~= expected then
    local must = counted(expected, "byte")
    return string.format("payload must have %s, got %d", must, n_bytes)
  end
end

local function add_payload(header, tvb, tree)
  local n_bytes = tvb:reported_len() - HEADER_BYTES
  local length = tree:add(field.payload_bytes, tvb(0, 0), n_bytes)
  length:set_generated()
  -- A capture may have kept less of the packet than there was.
  if tvb:len() > HEADER_BYTES then
    local item = tree:add(field.payload, tvb(HEADER_BYTES))
    item:set_text(string.format("Payload: %s", counted(n_bytes, "byte")))
    add_body(header, tvb, item)
  end
  local said = say_misfit(header, tvb, n_bytes)
  if said then
    length:add_proto_expert_info(wrong_length, said)
  end
end

-- Whether magic and version are fediac's; says what is wrong on a tree, if there is one.
local function is_ours(tvb, tree)
  if tvb:len() < 4 then
    return false
  end
  local magic, version = tvb(0, 2):uint(), tvb(2, 1):uint()
  if tree then
    local magic_item = tree:add(field.magic, tvb(0, 2))
    local version_item = tree:add(field.version, tvb(2, 1))
    if magic ~= MAGIC then
      local said = string.format("magic must be 0x%04x, got 0x%04x", MAGIC, magic)
      magic_item:add_proto_expert_info(wrong_magic, said)
    elseif version ~= VERSION then
      local said = string.format("version must be %d, got %d", VERSION, version)
      version_item:add_proto_expert_info(wrong_version, said)
    end
  end
  return magic == MAGIC and version == VERSION
end

local function dissect(tvb, pinfo, root)
  pinfo.cols.protocol = "FediAC"
  local tree = root:add(fediac, tvb())
  if tvb:reported_len() < HEADER_BYTES then
    local got = tvb:reported_len()
    local said = string.format("header must have %d bytes, got %d", HEADER_BYTES, got)
    tree:add_proto_expert_info(wrong_length, said)
    pinfo.cols.info = said
  elseif tvb:len() < HEADER_BYTES then
    pinfo.cols.info = "header cut off by the capture"
  elseif not is_ours(tvb, tree) then
    pinfo.cols.info = "another magic or version"
  else
    local header = read_header(tvb)
    local line = say(header, tvb)
    pinfo.cols.info = line
    tree:append_text(", " .. line)
    add_header(header, tvb, tree)
    add_payload(header, tvb, tree)
  end
  return tvb:len()
end

fediac.dissector = dissect

fediac:register_heuristic("udp", function(tvb, pinfo, root)
  if not is_ours(tvb) then
    return false
  end
  dissect(tvb, pinfo, root)
  return true
end)

local port = 0
function fediac.prefs_changed()
  local by_port = DissectorTable.get("udp.port")
  if port ~= 0 then
    by_port:remove(port, fediac)
  end
  port = fediac.prefs.port
  if port ~= 0 then
    by_port:add(port, fediac)
  end
end
