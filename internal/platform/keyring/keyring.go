// Package keyring keeps lists of keys: the first signs or encrypts, all of them verify or decrypt.
//
// A Ring is a value: it is changed by making another one, and written as a whole, so that a process
// that is killed in between leaves the old list or the new one. A Kind is the kind of key in a
// list; package vault knows where in a Secret a list is. The package promises that a key is never
// shown and never part of an error. It keeps nothing, and everything may be used from anywhere.
package keyring

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// MostKeys is how many keys a list has: with more than that somebody has changed keys many times
// without ending belief in any.
const MostKeys = 8

// Key is one key of a list.
type Key struct {
	// ID tells the key from others and says nothing else about it.
	ID string
	// Material is what the key is made of; secret.
	Material []byte
	// Since is when the key was made; zero if nobody knows, because it is older than lists.
	Since time.Time
}

// String hides the key material when a value that holds a key is printed.
func (k Key) String() string { return k.ID }

// GoString does the same.
func (k Key) GoString() string { return k.ID }

// Ring is a list of keys: the current one, then former ones, the youngest first. An empty one is
// that of nobody.
type Ring []Key

// Current is the key that signs. The ring must not be empty.
func (r Ring) Current() Key { return r[0] }

// Find returns the key with an ID.
func (r Ring) Find(id string) (Key, bool) {
	i := slices.IndexFunc(r, func(k Key) bool { return k.ID == id })
	if i < 0 {
		return Key{}, false
	}
	return r[i], true
}

// Rotated is the ring with a new current key. It fails if it would have more than MostKeys.
func (r Ring) Rotated(k Key) (Ring, error) {
	if _, known := r.Find(k.ID); known {
		return nil, fmt.Errorf("the key %s is in the list already", k.ID)
	}
	if len(r) >= MostKeys {
		return nil, fmt.Errorf("the list has %d keys, which is as many as there may be: end belief in one that nothing uses any more, with --distrust", len(r))
	}
	return append(Ring{k}, r...), nil
}

// Without is the ring without a key. The current one cannot be taken away.
func (r Ring) Without(id string) (Ring, error) {
	switch i := slices.IndexFunc(r, func(k Key) bool { return k.ID == id }); {
	case i < 0:
		return nil, fmt.Errorf("there is no key %q in the list", id)
	case i == 0:
		return nil, fmt.Errorf("the key %s is the current one: another one has to be made first", id)
	default:
		return slices.Delete(slices.Clone(r), i, i+1), nil
	}
}

// IDs returns the ids of the keys, the current one first.
func (r Ring) IDs() []string {
	var out []string
	for _, k := range r {
		out = append(out, k.ID)
	}
	return out
}

// Kind is what keys of one kind are made of.
type Kind struct {
	// New makes the material of a key.
	New func(random io.Reader, now time.Time) ([]byte, error)
	// ID is how a key is called. It fails if that is no material of a key; the error does not show
	// it.
	ID func(material []byte) (string, error)
	// Since is when a key was made, if the material says it; nil if it never does.
	Since func(material []byte) time.Time
}

// Make makes a key.
func (k Kind) Make(random io.Reader, now time.Time) (Key, error) {
	material, err := k.New(random, now)
	if err != nil {
		return Key{}, fmt.Errorf("make a key: %w", err)
	}
	id, err := k.ID(material)
	return Key{ID: id, Material: material, Since: now.UTC().Truncate(time.Second)}, err
}

// key reads a key that is not in the format of a list.
func (k Kind) key(material []byte) (Key, error) {
	id, err := k.ID(material)
	if err != nil {
		return Key{}, err
	}
	out := Key{ID: id, Material: material}
	if k.Since != nil {
		out.Since = k.Since(material)
	}
	return out, nil
}

// Alone is the ring of a key that was kept without a list.
func (k Kind) Alone(material []byte) (Ring, error) {
	one, err := k.key(material)
	if err != nil {
		return nil, err
	}
	return Ring{one}, nil
}

// stored is how a key is written.
type stored struct {
	ID       string    `json:"id"`
	Since    time.Time `json:"since,omitzero"`
	Material []byte    `json:"material,omitempty"`
}

// Text is the ring as it is written to a file.
func (r Ring) Text() ([]byte, error) {
	out := []stored{}
	for _, k := range r {
		out = append(out, stored{k.ID, k.Since, k.Material})
	}
	return json.Marshal(out)
}

// errNoList does not repeat what was read, for that may hold keys.
var errNoList = errors.New("this is no list of keys")

// Parse reads what Text has written.
func (k Kind) Parse(text []byte) (Ring, error) {
	var all []stored
	if json.Unmarshal(text, &all) != nil || len(all) == 0 || len(all) > MostKeys {
		return nil, errNoList
	}
	var out Ring
	for _, s := range all {
		one, err := k.key(s.Material)
		if err != nil {
			return nil, err
		}
		if one.ID != s.ID {
			return nil, fmt.Errorf("the key %q in the list is called %s: the list was damaged", s.ID, one.ID)
		}
		if _, twice := out.Find(one.ID); twice {
			return nil, fmt.Errorf("the key %s is in the list twice", one.ID)
		}
		if one.Since = s.Since; s.Since.IsZero() && k.Since != nil {
			one.Since = k.Since(s.Material)
		}
		out = append(out, one)
	}
	return out, nil
}

// Where a Secret has the rest of a list of keys: since when the current key is current, and the
// former keys. A version that knows no lists reads the current key only, from its usual place.
const (
	sinceData  = "since"
	formerData = "former"
)

// Read returns the ring in the data of a Secret whose current key is given. A current key that
// somebody has put there by hand is alone: nobody knows what former ones it has.
func (k Kind) Read(data map[string][]byte, current []byte) (Ring, error) {
	ring, err := k.Alone(current)
	if err != nil {
		return nil, err
	}
	id, since, _ := strings.Cut(strings.TrimSpace(string(data[sinceData])), " ")
	if id != ring[0].ID {
		return ring, nil
	}
	if at, err := time.Parse(time.RFC3339, since); err == nil {
		ring[0].Since = at
	}
	if len(data[formerData]) == 0 {
		return ring, nil
	}
	former, err := k.Parse(data[formerData])
	if err != nil {
		return nil, fmt.Errorf("former keys: %w", err)
	}
	if _, twice := former.Find(id); twice || len(former) >= MostKeys {
		return nil, fmt.Errorf("former keys: %w", errNoList)
	}
	return append(ring, former...), nil
}

// Listed reports whether the data of a Secret has anything of a list, whatever else is missing.
func Listed(data map[string][]byte) bool { return len(data[sinceData])+len(data[formerData]) > 0 }

// Write puts all of a ring into the data of a Secret but the material of the current key, which
// has a place of its own.
func Write(data map[string][]byte, r Ring) error {
	data[sinceData] = []byte(r[0].ID + " " + r[0].Since.UTC().Format(time.RFC3339))
	if len(r) == 1 {
		delete(data, formerData)
		return nil
	}
	text, err := r[1:].Text()
	data[formerData] = text
	return err
}
