// Cutting and joining pieces. The smaller part of a cut or a join changes its owner, so that few units are written.
#include "pieces.h"

#include <new>

namespace ral {

namespace {

uint32_t units_of(const PoolBlock& piece) noexcept { return static_cast<uint32_t>(piece.capacity >> kUnitBits); }
uint32_t first_unit(const PoolBlock& piece) noexcept {
  const Segment& segment = *piece.segment;
  return static_cast<uint32_t>((static_cast<const char*>(piece.address) - segment.base) >> kUnitBits);
}

void own(PoolBlock& piece) noexcept {
  std::atomic<PoolBlock*>* owners = piece.segment->owners;
  const uint32_t first = first_unit(piece), end = first + units_of(piece);
  for (uint32_t unit = first; unit < end; ++unit) owners[unit].store(&piece, std::memory_order_release);
}

// Free pieces have uses on their own stream only.
void inherit(PoolBlock& to, const PoolBlock& from) noexcept {
  uint64_t sequence = 0;
  if (from.uses.last(*from.stream, &sequence)) to.uses.note(to.pending, *to.stream, sequence);
}

PoolBlock* new_piece(Segment& segment) noexcept {
  if (PoolBlock* piece = segment.spare) {
    segment.spare = piece->next;
    return piece;
  }
  const uint32_t index = segment.carved.load(std::memory_order_relaxed);
  PoolBlock* piece = new (segment.blocks + index) PoolBlock;
  piece->segment = &segment;
  piece->device = segment.device;
  piece->stream = segment.stream;
  segment.carved.store(index + 1, std::memory_order_release);
  return piece;
}

// Does any unfinished work use a piece of this (wholly free) segment?
bool busy(Segment& segment) noexcept {
  for (uint32_t unit = 0; unit < segment.units();) {
    PoolBlock& piece = *segment.owners[unit].load(std::memory_order_relaxed);
    if (piece.pending.load() != 0 && !MemoryPool::idle(piece)) return true;
    unit += units_of(piece);
  }
  return false;
}

}  // namespace

void StaleSlots::take(Block& block) noexcept {
  if (void* slot = block.slot.exchange(nullptr, std::memory_order_acq_rel)) slots[count++] = slot;
}

// The first bin from `units` on that holds a piece; 0 if none.
uint32_t PieceList::filled_from(uint32_t units) const noexcept {
  if (units > kMostUnits) return 0;
  uint32_t word = units / 64;
  uint64_t bits = filled_[word] & (~uint64_t(0) << (units % 64));
  while (!bits) {
    if (++word > kMostUnits / 64) return 0;
    bits = filled_[word];
  }
  return word * 64 + static_cast<uint32_t>(__builtin_ctzll(bits));
}

PoolBlock* PieceList::fit(uint32_t units) const noexcept {
  for (uint32_t bin = filled_from(units); bin; bin = filled_from(bin + 1)) {
    const bool worth_opening = bin <= kSharedUnits || uint64_t(units) * kOpenShare >= bin;
    for (PoolBlock* piece = bins_[bin]; piece; piece = piece->next)
      if (worth_opening || bin < piece->segment->units()) return piece;
  }
  return nullptr;
}

void PieceList::put(PoolBlock* piece) noexcept {
  const uint32_t bin = units_of(*piece);
  piece->free_piece = true;
  piece->prev = nullptr;
  piece->next = bins_[bin];
  if (piece->next) piece->next->prev = piece;
  bins_[bin] = piece;
  filled_[bin / 64] |= uint64_t(1) << (bin % 64);
}

void PieceList::remove(PoolBlock* piece) noexcept {
  const uint32_t bin = units_of(*piece);
  piece->free_piece = false;
  if (piece->next) piece->next->prev = piece->prev;
  if (piece->prev) {
    piece->prev->next = piece->next;
    return;
  }
  bins_[bin] = piece->next;
  if (!bins_[bin]) filled_[bin / 64] &= ~(uint64_t(1) << (bin % 64));
}

PoolBlock* PieceList::take_exact(uint32_t units) noexcept {
  PoolBlock* piece = bins_[units];
  if (!piece) return nullptr;
  remove(piece);
  ++piece->segment->live;
  return piece;
}

PoolBlock* PieceList::take(uint32_t units, StaleSlots& stale) noexcept {
  PoolBlock* piece = fit(units);
  if (!piece) return nullptr;
  remove(piece);
  if (units_of(*piece) > units) piece = cut(piece, units, stale);
  ++piece->segment->live;
  return piece;
}

// The low part is the one returned; the rest is free.
PoolBlock* PieceList::cut(PoolBlock* piece, uint32_t units, StaleSlots& stale) noexcept {
  stale.take(*piece);
  PoolBlock* fresh = new_piece(*piece->segment);
  inherit(*fresh, *piece);
  char* const begin = static_cast<char*>(piece->address);
  const uint64_t bytes = uint64_t(units) << kUnitBits, over = piece->capacity - bytes;
  const bool fresh_is_low = bytes <= over;
  PoolBlock* const low = fresh_is_low ? fresh : piece;
  PoolBlock* const high = fresh_is_low ? piece : fresh;
  low->address = begin;
  low->capacity = bytes;
  high->address = begin + bytes;
  high->capacity = over;
  high->id = 0;  // it had no life of this shape
  own(*fresh);
  put(high);
  return low;
}

// Of two neighbours that are in no list; returns the one that is left.
PoolBlock* PieceList::join(PoolBlock* low, PoolBlock* high, StaleSlots& stale) noexcept {
  stale.take(*low);
  stale.take(*high);
  PoolBlock* const kept = low->capacity >= high->capacity ? low : high;
  PoolBlock* const gone = kept == low ? high : low;
  void* const begin = low->address;
  inherit(*kept, *gone);
  gone->uses.clear(gone->pending);
  const uint64_t bytes = low->capacity + high->capacity;
  std::atomic<PoolBlock*>* owners = kept->segment->owners;
  const uint32_t first = first_unit(*gone), end = first + units_of(*gone);
  for (uint32_t unit = first; unit < end; ++unit) owners[unit].store(kept, std::memory_order_release);
  kept->address = begin;
  kept->capacity = bytes;
  kept->id = 0;
  gone->next = kept->segment->spare;
  kept->segment->spare = gone;
  return kept;
}

void PieceList::give(PoolBlock* piece, StaleSlots& stale) noexcept {
  Segment& segment = *piece->segment;
  --segment.live;
  const uint32_t first = first_unit(*piece), end = first + units_of(*piece);
  if (first > 0) {
    PoolBlock* before = segment.owners[first - 1].load(std::memory_order_relaxed);
    if (before->free_piece) {
      remove(before);
      piece = join(before, piece, stale);
    }
  }
  if (end < segment.units()) {
    PoolBlock* after = segment.owners[end].load(std::memory_order_relaxed);
    if (after->free_piece) {
      remove(after);
      piece = join(piece, after, stale);
    }
  }
  put(piece);
}

PoolBlock* PieceList::add(Segment* segment, uint32_t units, StaleSlots& stale) {
  segments.push_back(segment);
  PoolBlock* piece = new_piece(*segment);
  piece->address = segment->base;
  piece->capacity = segment->bytes;
  own(*piece);
  ++segment->live;
  return units_of(*piece) > units ? cut(piece, units, stale) : piece;
}

void PieceList::detach(bool wait, uint32_t below, uint64_t wanted, std::vector<Segment*>* out) {
  uint64_t found = 0;
  for (size_t i = 0; i < segments.size() && found < wanted;) {
    Segment* segment = segments[i];
    if (segment->live > 0 || segment->units() >= below || (!wait && busy(*segment))) {
      ++i;
      continue;
    }
    found += segment->bytes;
    segment->retiring = true;
    for (uint32_t unit = 0; unit < segment->units();) {
      PoolBlock* piece = segment->owners[unit].load(std::memory_order_relaxed);
      unit += units_of(*piece);
      if (piece->free_piece) remove(piece);
    }
    out->push_back(segment);
    segments[i] = segments.back();
    segments.pop_back();
  }
  PoolBlock** place = &deferred;
  while (*place) {
    if ((*place)->segment->retiring)
      *place = (*place)->next;
    else
      place = &(*place)->next;
  }
}

}  // namespace ral
