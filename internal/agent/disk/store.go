// Package disk keeps on the disk of a host what its agent enforces, so that it outlives the process
// and the host.
//
// It owns a directory: a file with the whole state, and files with the changes since. It promises:
//
//   - What Record has returned without an error is there after a loss of power, and Load returns it.
//   - What is damaged, of another form, or does not follow from what is there is an error, and
//     never loaded in part.
//   - A disk that hangs or is full delays a caller no longer than the caller says; everything is
//     written when it can be.
//
// A Store is safe for concurrent use; nothing else may use its directory.
package disk

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nephele-io/nephele/internal/agent/cni"
	"github.com/nephele-io/nephele/internal/agent/fqdn"
	"github.com/nephele-io/nephele/internal/agent/network"
	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/proxy"
	"github.com/nephele-io/nephele/internal/enforcer"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

const (
	// stateFile is in the directory of the Store.
	stateFile = "state"
	// saveInterval is how often everything is written at least while something changes. Changes are
	// written before they are in the kernel; behindInterval is for those that could not be. A
	// release is written at once.
	saveInterval   = time.Minute
	behindInterval = 5 * time.Second
	// stateVersion is that of the form of the state.
	stateVersion = 1
	// stateLimit bounds what is read: a million members are less.
	stateLimit = 512 << 20
)

// State is what outlives the process and the host.
type State struct {
	// Version is that of the form. What a newer agent has written is not read.
	Version int `json:"version,omitempty"`
	// Revision counts what was in force. It stands beside the rules in the kernel, too, and tells
	// which of the two is newer.
	Revision uint64 `json:"revision,omitempty"`
	// Key is that for which Computed was computed.
	Key string `json:"key"`
	// Computed is what was enforced.
	Computed *enforcer.Computed `json:"computed,omitempty"`
	// ReleasedUntil is until when nothing is enforced.
	ReleasedUntil time.Time `json:"releasedUntil,omitzero"`
	// Names are the addresses of names as they were known.
	Names map[string][]fqdn.Address `json:"names,omitempty"`
	// Node is what was known of the Node; nil on a VM.
	Node *nft.Node `json:"node,omitempty"`
	// Services are where Services were reached that policies have as peers.
	Services map[string][]nft.Frontend `json:"services,omitempty"`
	// Attachments are the attachments that the runtime of the Node has reported.
	Attachments []cni.Attachment `json:"attachments,omitempty"`
	// HostPorts are the ports of the Node that lead to Pods.
	HostPorts []proxy.HostPort `json:"hostPorts,omitempty"`
	// Network are the addresses that Pods of the Node have; nil where the agent gives none.
	Network *network.Kept `json:"network,omitempty"`
	// Failsafe are the failsafe flows as they were: with them the agent reaches the DNS or API
	// server that knows the present addresses of its servers.
	Failsafe []nft.Failsafe `json:"failsafe,omitempty"`
}

// Store keeps what is enforced in a directory, of which it is the only user. It is safe for
// concurrent use.
type Store struct {
	dir string
	// writing is held while the file is written, and taken before mu.
	writing sync.Mutex

	mu    sync.Mutex
	kept  State
	dirty bool
	saved time.Time
	// revision is the last one that was given.
	revision uint64
	// base is what is on disk, with changes, and baseRest what of it was not computed. behind tells
	// that changes are missing there.
	base     State
	baseRest []byte
	behind   bool
	// rebasing tells that everything is being written, and that it is newer than base: changes
	// cannot be told against either.
	rebasing bool

	// appending has room for the goroutine that writes changes, which owns their file.
	appending   chan struct{}
	journal     *os.File
	journalSize int64
}

// Open opens a directory and makes it if it is not there.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the state of the agent: %w", err)
	}
	return &Store{dir: dir, appending: make(chan struct{}, 1)}, nil
}

// Reached tells of a revision that there is in the kernel: the next one is larger.
func (s *Store) Reached(revision uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision = max(s.revision, revision)
}

// Load returns what was kept; nil if nothing was. What has been damaged is an error.
func (s *Store) Load() (*State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept, err := s.loadWhole()
	if err != nil {
		return nil, fmt.Errorf("load the state of the agent: %w", err)
	}
	whole := kept != nil
	if !whole {
		kept = &State{}
	}
	if err := s.replay(kept); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("load the state of the agent: %w", err)
	}
	if !whole && kept.Revision == 0 {
		return nil, nil
	}
	if kept.Version > stateVersion {
		return nil, fmt.Errorf("load the state of the agent: it was written by a newer agent, in version %d of the form; this one knows up to %d", kept.Version, stateVersion)
	}
	s.kept, s.base = *kept, *kept
	s.revision = max(s.revision, kept.Revision)
	if s.baseRest, err = rest(*kept); err != nil {
		return nil, fmt.Errorf("load the state of the agent: %w", err)
	}
	return kept, nil
}

// loadWhole returns what was kept as a whole; nil if nothing was.
func (s *Store) loadWhole() (*State, error) {
	path := filepath.Join(s.dir, stateFile)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && info.Size() > stateLimit {
		err = fmt.Errorf("it has %d bytes, more than %d", info.Size(), stateLimit)
	}
	var raw []byte
	if err == nil {
		raw, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, err
	}
	sum, body, found := bytes.Cut(raw, []byte("\n"))
	want := sha256.Sum256(body)
	if !found || string(sum) != hex.EncodeToString(want[:]) {
		return nil, fmt.Errorf("%s is damaged: its checksum does not fit", path)
	}
	var form struct{ Version int }
	if json.Unmarshal(body, &form) == nil && form.Version > stateVersion { // the rest may mean something else
		return &State{Version: form.Version, Revision: 1<<64 - 1}, nil
	}
	var kept State
	if err := json.Unmarshal(body, &kept); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &kept, nil
}

// Keep takes what is to be kept. Save writes it.
func (s *Store) Keep(k State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k.Version = stateVersion
	s.kept, s.dirty = k, true
}

// Discard forgets what was loaded, because it is not of this host.
func (s *Store) Discard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept, s.base, s.baseRest = State{}, State{}, nil
	s.behind = true // what is written from now on does not go on from what is there
}

// Release keeps until when nothing is enforced, and writes it.
func (s *Store) Release(key string, until time.Time) error {
	s.mu.Lock()
	s.kept.Key, s.kept.ReleasedUntil, s.dirty = key, until, true
	saved := s.saved
	s.mu.Unlock()
	return s.Save(saved, true)
}

// Due reports whether Save would write now.
func (s *Store) Due(at time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.due(at, false)
}

// due needs mu.
func (s *Store) due(at time.Time, now bool) bool {
	since, interval := at.Sub(s.saved), saveInterval
	if s.behind || s.saved.IsZero() {
		interval = behindInterval
	}
	return s.dirty && (now || since < 0 || since >= interval)
}

// Save writes everything that is kept, unless it is written already or, if that can wait, was
// written a moment ago.
func (s *Store) Save(at time.Time, now bool) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	due := false
	recovered.Holding(&s.mu, func() { due = s.due(at, now) })
	if !due {
		return nil
	}
	s.appending <- struct{}{}
	s.mu.Lock()
	s.saved, s.dirty, s.behind = at, false, false
	kept := s.kept
	kept.Version = stateVersion
	s.rebasing = s.base.Revision != kept.Revision
	s.mu.Unlock()
	removeChanges, err := s.rotate()
	<-s.appending
	if err == nil {
		err = replaceFile(s.dir, stateFile, kept.write)
	}
	if err == nil {
		err = removeChanges()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rebasing = false
	if err != nil {
		s.dirty, s.behind = true, true
		return fmt.Errorf("keep the state of the agent: %w", err)
	}
	if s.base.Revision <= kept.Revision {
		s.base = kept
		s.baseRest, err = rest(kept)
	}
	return err
}

// write writes a checksum and what it is of, as JSON. That is done piece by piece: the whole is as
// large as all that the agent knows.
func (k State) write(f *os.File) error {
	head := make([]byte, hex.EncodedLen(sha256.Size)+1)
	if _, err := f.Write(head); err != nil {
		return err
	}
	sum := sha256.New()
	w := bufio.NewWriterSize(io.MultiWriter(f, sum), 1<<16)
	computed := k.Computed
	k.Computed = nil
	rest, err := json.Marshal(k)
	if err != nil {
		return err
	}
	if computed != nil {
		_, _ = w.WriteString(`{"computed":{"Policies":`) // w keeps its errors
		err = writeList(w, computed.Policies)
		_, _ = w.WriteString(`,"AddressGroups":`)
		err = errors.Join(err, writeList(w, computed.AddressGroups))
		_, _ = w.WriteString(`,"AppliedToGroups":`)
		err = errors.Join(err, writeList(w, computed.AppliedToGroups))
		_, _ = w.WriteString(`},`)
		rest = rest[1:] // the key is always there
	}
	_, _ = w.Write(rest)
	if err := errors.Join(err, w.Flush()); err != nil {
		return err
	}
	hex.Encode(head, sum.Sum(nil))
	head[len(head)-1] = '\n'
	_, err = f.WriteAt(head, 0)
	return err
}

func writeList[T any](w *bufio.Writer, list []T) error {
	_ = w.WriteByte('[')
	e := json.NewEncoder(w) // which uses its memory again
	for i, x := range list {
		if i > 0 {
			_ = w.WriteByte(',')
		}
		if err := e.Encode(x); err != nil {
			return err
		}
	}
	return w.WriteByte(']')
}

// replaceFile writes a file such that after a crash there is the old one or the new one.
func replaceFile(dir, name string, write func(*os.File) error) error {
	f, err := os.CreateTemp(dir, name+".*")
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Remove removes the directory with everything in it.
func (s *Store) Remove() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.RemoveAll(s.dir); err != nil {
		return fmt.Errorf("remove the state of the agent: %w", err)
	}
	return nil
}
