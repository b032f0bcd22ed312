package sharing

import (
	"context"
	"errors"
	"slices"
)

// ErrOvertaken is the error of a Store when somebody else has written since the version was read.
var ErrOvertaken = errors.New("somebody else has written")

// Store keeps seats and table where all replicas see them. Reads must show the latest write.
type Store interface {
	// Seats returns all seats, sorted by name.
	Seats(ctx context.Context) ([]Seat, error)
	// PutSeat writes a seat in the place of its version, and returns the new version.
	PutSeat(ctx context.Context, s Seat) (version string, err error)
	// Table returns the table; one that no one has written is Unknown, and so is one that is not as
	// it was written.
	Table(ctx context.Context) (Table, error)
	// PutTable writes the table in the place of its version, and returns the new version. One that
	// is Unknown is then there, and tells as little.
	PutTable(ctx context.Context, t Table) (version string, err error)
}

// Seat is a place for one replica.
type Seat struct {
	Name string
	// Epoch names the process that sits here; empty if none does. Sequence rises with every
	// renewal.
	Epoch    string
	Sequence uint64
	// Address is where the process serves others; it may be empty.
	Address string
	// Past are those that sat here before, the latest first.
	Past    []Past
	Version string
}

// Past is a process that is gone, and how far it had counted.
type Past struct {
	Epoch    string
	Sequence uint64
}

// maxPast bounds what a seat remembers.
const maxPast = 8

// left is the seat without its process, which is remembered.
func (s Seat) left() Seat {
	if s.Epoch != "" {
		s.Past = append([]Past{{s.Epoch, s.Sequence}}, slices.Clone(s.Past)...)
		s.Past = s.Past[:min(len(s.Past), maxPast)]
	}
	s.Epoch, s.Sequence, s.Address = "", 0, ""
	return s
}

// Table names the holder of each shard.
type Table struct {
	Shards []Shard
	// Notes are about single keys, for the holders of their shards.
	Notes   map[string]string
	Version string
	// Unknown says that the holders are unknown: the table is absent or damaged.
	Unknown bool
}

// Shard is one entry.
type Shard struct {
	// Holder is the epoch of the process that holds it; empty if none does.
	Holder string
	// Term rises whenever it is taken.
	Term uint64
	// Before is the epoch of the former holder, or of the last one. InOrder says that the former
	// holder gave it up itself.
	Before  string
	InOrder bool
}
