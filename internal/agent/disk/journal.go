package disk

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/enforcer"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

const (
	// journalPrefix begins the names of files with changes. The rest is the first revision that may
	// be in it, in hexadecimal.
	journalPrefix = "changes-"
	// recordLimit bounds one change, in bytes: what is larger would take too long to write before
	// each change of the kernel. journalLimit bounds a file, after which everything is written.
	recordLimit  = 4 << 20
	journalLimit = 16 << 20
)

// Errors of changes that are not on disk before they are in the kernel. Everything is written soon
// after.
var (
	errLarge = errors.New("the change is too large")
	errBusy  = errors.New("the disk takes long")
)

// change is what leads from what is on disk to what is to be kept.
type change struct {
	Revision uint64 `json:"revision"`
	// Base is the revision that it leads on from.
	Base uint64 `json:"base"`
	// Rest is what is kept besides what was computed; left out if it has not changed.
	Rest json.RawMessage `json:"rest,omitempty"`
	// Policies and groups are those that are new or have changed; the names are those that are
	// gone.
	Policies            []*v1beta2.NetworkPolicy  `json:"policies,omitempty"`
	PoliciesGone        []string                  `json:"policiesGone,omitempty"`
	AddressGroups       []*enforcer.AddressGroup  `json:"addressGroups,omitempty"`
	AddressGroupsGone   []string                  `json:"addressGroupsGone,omitempty"`
	AppliedToGroups     []*v1beta2.AppliedToGroup `json:"appliedToGroups,omitempty"`
	AppliedToGroupsGone []string                  `json:"appliedToGroupsGone,omitempty"`
}

func (c *change) empty() bool {
	return c.Rest == nil && len(c.Policies)+len(c.PoliciesGone)+len(c.AddressGroups)+len(c.AddressGroupsGone)+len(c.AppliedToGroups)+len(c.AppliedToGroupsGone) == 0
}

// rest is what is kept besides what was computed, and its revision.
func rest(k State) (json.RawMessage, error) {
	k.Computed, k.Revision = nil, 0
	return json.Marshal(k)
}

// changeOf returns what leads from what is on disk to what is to be kept.
func changeOf(base State, baseRest json.RawMessage, k State) (c change, now json.RawMessage, err error) {
	if now, err = rest(k); err != nil {
		return c, nil, err
	}
	if !bytes.Equal(now, baseRest) {
		c.Rest = now
	}
	var from, to enforcer.Computed
	if base.Computed != nil {
		from = *base.Computed
	}
	if k.Computed != nil {
		to = *k.Computed
	}
	c.Policies, c.PoliciesGone = differ(from.Policies, to.Policies, func(a, b *v1beta2.NetworkPolicy) bool { return reflect.DeepEqual(a, b) })
	c.AddressGroups, c.AddressGroupsGone = differ(from.AddressGroups, to.AddressGroups, (*enforcer.AddressGroup).Equal)
	c.AppliedToGroups, c.AppliedToGroupsGone = differ(from.AppliedToGroups, to.AppliedToGroups, func(a, b *v1beta2.AppliedToGroup) bool { return reflect.DeepEqual(a, b) })
	return c, now, nil
}

// named is what lists are made of.
type named interface{ GetName() string }

func differ[T interface {
	comparable
	named
}](from, to []T, same func(a, b T) bool) (changed []T, gone []string) {
	if slices.Equal(from, to) {
		return nil, nil
	}
	// Mostly one of thousands has changed: what is the same before and behind it is passed over.
	for len(from) > 0 && len(to) > 0 && from[0] == to[0] {
		from, to = from[1:], to[1:]
	}
	for len(from) > 0 && len(to) > 0 && from[len(from)-1] == to[len(to)-1] {
		from, to = from[:len(from)-1], to[:len(to)-1]
	}
	old := make(map[string]T, len(from))
	for _, x := range from {
		old[x.GetName()] = x
	}
	for _, x := range to {
		was, there := old[x.GetName()]
		delete(old, x.GetName())
		if !there || was != x && !same(was, x) {
			changed = append(changed, x)
		}
	}
	for name := range old {
		gone = append(gone, name)
	}
	slices.Sort(gone)
	return changed, gone
}

// apply does what a change says.
func (c *change) apply(k *State) error {
	computed := enforcer.Computed{}
	if k.Computed != nil {
		computed = *k.Computed
	}
	if c.Rest != nil {
		var next State
		if err := json.Unmarshal(c.Rest, &next); err != nil {
			return err
		}
		*k = next
	}
	computed.Policies = merge(computed.Policies, c.Policies, c.PoliciesGone)
	computed.AddressGroups = merge(computed.AddressGroups, c.AddressGroups, c.AddressGroupsGone)
	computed.AppliedToGroups = merge(computed.AppliedToGroups, c.AppliedToGroups, c.AppliedToGroupsGone)
	k.Computed, k.Revision = &computed, c.Revision
	return nil
}

func merge[T named](list, changed []T, gone []string) []T {
	if len(changed)+len(gone) == 0 {
		return list
	}
	away := map[string]bool{}
	for _, name := range gone {
		away[name] = true
	}
	for _, x := range changed {
		away[x.GetName()] = true
	}
	out := slices.DeleteFunc(slices.Clone(list), func(x T) bool { return away[x.GetName()] })
	out = append(out, changed...)
	slices.SortFunc(out, func(a, b T) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return out
}

// bounded is a buffer that takes up to recordLimit bytes.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > recordLimit {
		return 0, errLarge
	}
	return b.Buffer.Write(p)
}

// line is a change as it is in a file: a checksum, and what it is of.
func (c *change) line() ([]byte, error) {
	size := 0
	for _, g := range c.AddressGroups {
		if size += g.Size(); size > recordLimit { // before they are encoded
			return nil, errLarge
		}
	}
	var b bounded
	if err := json.NewEncoder(&b).Encode(c); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
	return append(append([]byte(hex.EncodeToString(sum[:])), ' '), b.Bytes()...), nil
}

// Record writes what is to be kept to the disk, unless it is there, and returns its revision. It
// writes what has changed, and waits for that until late is ready. If it fails, Save writes
// everything; what is in force then has a revision that is not on disk.
func (s *Store) Record(k State, late <-chan time.Time) (uint64, error) {
	select {
	case s.appending <- struct{}{}:
	default:
		revision := s.keepNext(&k)
		s.fell()
		return revision, fmt.Errorf("keep the state of the agent: %w", errBusy)
	}
	k.Version = stateVersion
	s.mu.Lock()
	base, baseRest, rebasing := s.base, s.baseRest, s.rebasing
	s.mu.Unlock()
	c, now, err := changeOf(base, baseRest, k)
	if rebasing || s.journalSize > journalLimit {
		err = errLarge
	}
	if err == nil && c.empty() && base.Computed != nil {
		k.Revision = base.Revision
		s.Keep(k)
		<-s.appending
		return k.Revision, nil
	}
	c.Revision, c.Base = s.keepNext(&k), base.Revision
	var line []byte
	if err == nil {
		line, err = c.line()
	}
	if err != nil {
		<-s.appending
		s.fell()
		if errors.Is(err, errLarge) { // which is no trouble
			return k.Revision, nil
		}
		return k.Revision, fmt.Errorf("keep the state of the agent: %w", err)
	}
	done := make(chan error, 1)
	go func() {
		err := recovered.Call(func() error { return s.appendLine(line, k.Revision) })
		if err == nil {
			s.mu.Lock()
			s.base, s.baseRest = k, now
			s.mu.Unlock()
		} else {
			s.fell()
		}
		<-s.appending
		done <- err
	}()
	select {
	case err = <-done:
	case <-late:
		err = errBusy
	}
	if err != nil {
		return k.Revision, fmt.Errorf("keep the state of the agent: %w", err)
	}
	return k.Revision, nil
}

// keepNext gives what is to be kept the next revision.
func (s *Store) keepNext(k *State) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision++
	k.Revision = s.revision
	s.kept, s.dirty = *k, true
	return k.Revision
}

// fell notes that the disk is behind, so that everything is written soon.
func (s *Store) fell() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.behind = true
}

// appendLine adds a line to the file of changes, and waits until it is on the disk. It needs
// appending.
func (s *Store) appendLine(line []byte, revision uint64) error {
	if s.journal != nil && !isAt(s.journal) { // somebody has removed it
		_ = s.journal.Close()
		s.journal = nil
		return fmt.Errorf("%s is gone", journalPrefix+"*")
	}
	if s.journal == nil {
		f, err := os.OpenFile(filepath.Join(s.dir, journalName(revision)), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		if err := syncDir(s.dir); err != nil {
			return errors.Join(err, f.Close())
		}
		s.journal, s.journalSize = f, 0
	}
	_, err := s.journal.WriteAt(line, s.journalSize)
	if err == nil {
		err = s.journal.Sync()
	}
	if err != nil {
		// Half a line would hide those behind it.
		if cut := s.journal.Truncate(s.journalSize); cut != nil {
			err = errors.Join(err, cut, s.journal.Close())
			s.journal = nil
		}
		return err
	}
	s.journalSize += int64(len(line))
	return nil
}

// isAt reports whether an open file still has its name.
func isAt(f *os.File) bool {
	open, err1 := f.Stat()
	named, err2 := os.Stat(f.Name())
	return err1 == nil && err2 == nil && os.SameFile(open, named)
}

func journalName(revision uint64) string { return fmt.Sprintf("%s%016x", journalPrefix, revision) }

// journals returns the names of files with changes, in the order in which they were written.
func journals(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		text, ours := strings.CutPrefix(e.Name(), journalPrefix)
		if _, err := strconv.ParseUint(text, 16, 64); ours && err == nil && len(text) == 16 {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// replay does what the files of changes say that are newer than what was kept as a whole. What
// follows a line that is not whole was never in force.
func (s *Store) replay(k *State) error {
	names, err := journals(s.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := replayFile(filepath.Join(s.dir, name), k); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func replayFile(path string, k *State) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	r := bufio.NewReaderSize(io.LimitReader(f, journalLimit+2*recordLimit), 1<<16)
	for {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) { // a line that has not come to its end
			return nil
		}
		if err != nil {
			return err
		}
		sum, body, found := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(" "))
		want := sha256.Sum256(body)
		if !found || string(sum) != hex.EncodeToString(want[:]) {
			return nil
		}
		var c change
		if err := json.Unmarshal(body, &c); err != nil {
			return err
		}
		switch {
		case c.Revision <= k.Revision:
		case c.Base != k.Revision:
			return fmt.Errorf("a change of revision %d is there, and revision %d is not", c.Base, c.Base)
		default:
			if err := c.apply(k); err != nil {
				return err
			}
		}
	}
}

// rotate begins a new file of changes. It returns what removes those that are not needed once
// everything up to now is on disk. It needs appending.
func (s *Store) rotate() (remove func() error, err error) {
	if s.journal != nil {
		err = s.journal.Close()
		if s.journalSize == 0 {
			err = errors.Join(err, os.Remove(s.journal.Name()))
		}
		s.journal, s.journalSize = nil, 0
	}
	names, failed := journals(s.dir)
	return func() error {
		var errs []error
		for _, name := range names {
			if err := os.Remove(filepath.Join(s.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
		return errors.Join(errs...)
	}, errors.Join(err, failed)
}
