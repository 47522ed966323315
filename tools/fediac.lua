-- Wireshark's view of fediac's packets: fields by name, kinds and flags in words, and
-- what does not fit marked. The format is in docs/protocol.md; a new field or kind
-- there needs a line here. Runs on Lua 5.2 to 5.4: no bit operators, no integer division.

local MAGIC, VERSION = 0xFED1, 2
local HEADER_BYTES = 40
local EVERYONE = 0xFFFF
local END = 0xFFFFFFFF

local TALLY, MAX, SUM, BLOCK_SUM, INDEXED_SUM, WAIT, ERROR = 1, 2, 3, 4, 5, 23, 25
local KINDS = {
  [TALLY] = "tally",
  [MAX] = "max",
  [SUM] = "sum",
  [BLOCK_SUM] = "block sum",
  [INDEXED_SUM] = "indexed sum",
  [WAIT] = "wait",
  [ERROR] = "error",
}
local SETTINGS, ITEMS = 1, 2
local REASONS = { [SETTINGS] = "settings differ", [ITEMS] = "items differ" }
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
}
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

local wrong_magic = ProtoExpert.new(
  "fediac.magic.wrong", "Wrong magic", expert.group.MALFORMED, expert.severity.ERROR
)
local wrong_version = ProtoExpert.new(
  "fediac.version.wrong", "Wrong version", expert.group.MALFORMED, expert.severity.ERROR
)
local wrong_kind = ProtoExpert.new(
  "fediac.kind.wrong", "Unknown kind", expert.group.MALFORMED, expert.severity.ERROR
)
local wrong_length = ProtoExpert.new(
  "fediac.length.wrong", "Wrong length", expert.group.MALFORMED, expert.severity.ERROR
)
fediac.experts = { wrong_magic, wrong_version, wrong_kind, wrong_length }

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

local function say_who(header)
  if header.client == EVERYONE then
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
    return says_next and string.format("%s, packet %d is next", line, header.aux) or line
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
  local is_answer = has(header.flags, ANSWER)
  tree:add(is_answer and field.count or field.threshold, tvb(26, 2))
  tree:add(field.bits_up, tvb(28, 1))
  tree:add(field.bits, tvb(29, 1))
  add_flags(header, tvb, tree)
  local part_tree = tree:add(field.part, tvb(31, 1))
  if header.kind == ERROR then
    add_error(header, tvb, part_tree, aux_tree, items_tree)
  end
  tree:add(field.tag, tvb(32, 8))
end

local function add_payload(header, tvb, tree)
  local n_bytes = tvb:reported_len() - HEADER_BYTES
  local expected = math.ceil(header.n_items * item_bits(header) / 8)
  local length = tree:add(field.payload_bytes, tvb(0, 0), n_bytes)
  length:set_generated()
  -- A capture may have kept less of the packet than there was.
  if tvb:len() > HEADER_BYTES then
    local item = tree:add(field.payload, tvb(HEADER_BYTES))
    item:set_text(string.format("Payload: %s", counted(n_bytes, "byte")))
  end
  if KINDS[header.kind] and n_bytes ~= expected then
    local must = counted(expected, "byte")
    local said = string.format("payload must have %s, got %d", must, n_bytes)
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
