// Package records keeps on record what the members of a set have, so that a hub knows it after a
// restart.
//
// It owns the ClusterRecord objects, each a part of what one member has, and what is known of them.
// It promises:
//
//   - What is recorded was believed at one moment. A member that has not told all yet does not
//     replace what was recorded of it before.
//   - The records of a Cluster that is gone go, too.
//   - A member costs at most one record per Pause, also if it cannot be written.
//
// All methods may be called from anywhere, also with a lock that Believed takes; Run may run once.
// The lock is held for no call to others.
package records

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
)

const (
	// Pause is the shortest interval between two records of a member. An old record is still
	// useful: a hub that knows nothing newer uses it until the member connects.
	Pause = 5 * time.Minute
	// lookPause is how often it is looked what there is to record.
	lookPause = time.Second
	// mostRecord bounds the content of an object, and mostParts of how many objects a record is.
	mostRecord = 1 << 20
	mostParts  = 1024
	// mostUnpacked bounds a record when it is read.
	mostUnpacked = 64 << 20
)

// Believed is what is to be recorded.
type Believed interface {
	// Versions returns the versions of what is believed of the members that have told all, by name.
	Versions() map[string]uint64
	// Content is what is believed of a member, divided into so many parts; false if there is no
	// such member.
	Content(member string, parts int) (Content, bool)
}

// Content is what is believed of a member. It never changes.
type Content struct {
	// UID is that of the Cluster.
	UID     string
	Version uint64
	Parts   [][]*wire.Up
}

// Options are what Records need. All are required.
type Options struct {
	// Client writes; Live reads from the API server.
	Client   client.Client
	Live     client.Reader
	Believed Believed
	Clock    clock.WithTicker
	Log      logr.Logger
}

// Records keep what members have. See the package comment; use New.
type Records struct {
	Options

	mu sync.Mutex
	// recalled is what is on record of members that have not become known yet.
	recalled map[string][]*setv1alpha1.ClusterRecord
	// members are those that are known, dropped those whose records are to go, with the number of
	// their parts.
	members map[string]*recorded
	dropped map[string]int
}

// recorded is what is on record of a member.
type recorded struct {
	uid     string
	version uint64
	sum     [sha256.Size]byte
	// at is when it was recorded, or could not be.
	at    time.Time
	parts int
}

// record is a record to write.
type record struct {
	cluster, uid string
	version      uint64
	sum          [sha256.Size]byte
	parts        []*setv1alpha1.ClusterRecord
	// former is of how many parts the record was that it replaces.
	former int
}

// New returns Records that know of none.
func New(o Options) *Records {
	return &Records{Options: o, members: map[string]*recorded{}, dropped: map[string]int{}}
}

// Recall reads what is on record. It is called before any member may speak.
func (r *Records) Recall(ctx context.Context) error {
	var list setv1alpha1.ClusterRecordList
	err := r.Live.List(ctx, &list)
	switch {
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return nil
	case apierrors.IsForbidden(err): // then nothing was ever written
		r.Log.Info("What members have is not kept over a restart: apply config/overlays/cluster-set again", "reason", err.Error())
		return nil
	case err != nil:
		return fmt.Errorf("read what is on record of members: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recalled = map[string][]*setv1alpha1.ClusterRecord{}
	for i := range list.Items {
		o := &list.Items[i]
		r.recalled[o.Cluster] = append(r.recalled[o.Cluster], o)
	}
	return nil
}

// Begin takes over that a member has become known, and returns what is on record of it.
func (r *Records) Begin(name, uid string) [][]*wire.Up {
	r.mu.Lock()
	parts := r.recalled[name]
	delete(r.recalled, name)
	m := &recorded{uid: uid, parts: r.dropped[name]}
	delete(r.dropped, name)
	for _, o := range parts {
		m.parts = max(m.parts, partOf(o.Name)+1)
	}
	r.members[name] = m
	r.mu.Unlock()
	var out [][]*wire.Up
	for _, o := range parts {
		if o.ClusterUID != uid {
			continue // of a Cluster that was there before under this name
		}
		records, err := unpack(o.Content)
		if err != nil {
			r.Log.Error(err, "A part of what is on record of a member is left out", "record", o.Name)
			continue
		}
		out = append(out, records)
	}
	return out
}

// Drop takes over that a member is gone: its records are to go.
func (r *Records) Drop(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.members[name]; m != nil {
		r.dropped[name] = max(r.dropped[name], m.parts)
		delete(r.members, name)
	}
}

// Known takes over that all members have become known: the records of others are to go.
func (r *Records) Known() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, parts := range r.recalled {
		for _, o := range parts {
			r.dropped[name] = max(r.dropped[name], partOf(o.Name)+1)
		}
	}
	r.recalled = nil
}

// Run keeps what is believed of members on record until ctx ends.
func (r *Records) Run(ctx context.Context) {
	ticker := r.Clock.NewTicker(lookPause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
		for name, parts := range r.takeDropped() {
			if err := r.remove(ctx, name, 0, parts); err != nil && ctx.Err() == nil {
				r.Log.V(1).Info("What a former member had is still on record, trying again", "cluster", name, "reason", err.Error())
				r.dropAgain(name, parts)
			}
		}
		for _, name := range r.due() {
			x, err := r.make(name)
			if err == nil && x != nil {
				err = r.store(ctx, x)
			}
			if err != nil && ctx.Err() == nil {
				r.Log.Error(err, "What a member has was not recorded; it is tried again", "cluster", name, "in", Pause.String())
				r.unwritten(name)
			}
		}
	}
}

// takeDropped are the members whose records are to go, with the number of their parts.
func (r *Records) takeDropped() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := maps.Clone(r.dropped)
	clear(r.dropped)
	return out
}

func (r *Records) dropAgain(name string, parts int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropped[name] = max(r.dropped[name], parts)
}

// due are the members of which something new is believed, and not too shortly after the last
// record. Before a member has told all, its former record is worth more.
func (r *Records) due() []string {
	versions := r.Believed.Versions()
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, name := range slices.Sorted(maps.Keys(versions)) {
		if m := r.members[name]; m != nil && versions[name] != m.version && (m.at.IsZero() || r.Clock.Since(m.at) >= Pause) {
			out = append(out, name)
		}
	}
	return out
}

// make makes a record; nil if it would say what is on record already.
func (r *Records) make(name string) (*record, error) {
	for parts := 1; parts <= mostParts; parts *= 2 {
		content, known := r.Believed.Content(name, parts)
		if !known {
			return nil, nil
		}
		former, last := r.former(name)
		x := &record{cluster: name, uid: content.UID, version: content.Version, former: former}
		sum, fits := sha256.New(), true
		for n, records := range content.Parts {
			text, entities, err := pack(records)
			if err != nil {
				return nil, err
			}
			fits = fits && len(text) <= mostRecord
			_, _ = io.WriteString(sum, text+"\n")
			x.parts = append(x.parts, &setv1alpha1.ClusterRecord{
				ObjectMeta: metav1.ObjectMeta{Name: nameOf(name, n)}, Cluster: name, ClusterUID: x.uid, Entities: entities, Content: text,
			})
		}
		if !fits {
			continue
		}
		if copy(x.sum[:], sum.Sum(nil)); x.sum == last {
			r.written(x)
			return nil, nil
		}
		return x, nil
	}
	return nil, fmt.Errorf("what there is of %s does not fit into %d objects", name, mostParts)
}

// former is of how many parts the record of a member is, and what their sum is.
func (r *Records) former(name string) (parts int, sum [sha256.Size]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.members[name]; m != nil {
		return m.parts, m.sum
	}
	return 0, sum
}

// nameOf is the name of a part. No name of a Cluster holds a dot.
func nameOf(cluster string, part int) string { return fmt.Sprintf("%s.%d", cluster, part) }

func partOf(name string) int {
	var n int
	if _, err := fmt.Sscanf(name[max(0, slices.Index([]byte(name), '.')):], ".%d", &n); err != nil || n < 0 || n >= mostParts {
		return 0
	}
	return n
}

// store writes the parts of a record, the last first: when it comes to be of more parts, what moves
// is in a new one before it is taken out of an old one.
func (r *Records) store(ctx context.Context, x *record) error {
	for _, part := range slices.Backward(x.parts) {
		present := &setv1alpha1.ClusterRecord{}
		err := r.Live.Get(ctx, client.ObjectKeyFromObject(part), present)
		switch {
		case apierrors.IsNotFound(err):
			err = r.Client.Create(ctx, part)
		case err == nil:
			part.ResourceVersion = present.ResourceVersion
			err = r.Client.Update(ctx, part)
		}
		if err != nil {
			return fmt.Errorf("record what %s has: %w", x.cluster, err)
		}
	}
	if err := r.remove(ctx, x.cluster, len(x.parts), x.former); err != nil {
		return err
	}
	r.written(x)
	return nil
}

// remove deletes parts of a record.
func (r *Records) remove(ctx context.Context, cluster string, from, to int) error {
	for n := from; n < to; n++ {
		if err := r.Client.Delete(ctx, &setv1alpha1.ClusterRecord{ObjectMeta: metav1.ObjectMeta{Name: nameOf(cluster, n)}}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("remove what is on record of %s: %w", cluster, err)
		}
	}
	return nil
}

func (r *Records) written(x *record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.members[x.cluster]; m != nil && m.uid == x.uid {
		*m = recorded{x.uid, x.version, x.sum, r.Clock.Now(), len(x.parts)}
	}
}

// unwritten notes that a record could not be made or kept: the next attempt costs as much.
func (r *Records) unwritten(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.members[name]; m != nil {
		m.at = r.Clock.Now()
	}
}

// pack makes the content of a part.
func pack(records []*wire.Up) (text string, entities int32, err error) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	for _, r := range records {
		err = errors.Join(err, wire.Write(z, r))
		entities += int32(len(r.Entities))
	}
	if err = errors.Join(err, z.Close()); err != nil {
		return "", 0, fmt.Errorf("pack a record: %w", err)
	}
	return base64.StdEncoding.EncodeToString(out.Bytes()), entities, nil
}

func unpack(text string) ([]*wire.Up, error) {
	packed, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("unpack a record: %w", err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("unpack a record: %w", err)
	}
	in := wire.NewReader(io.LimitReader(z, mostUnpacked))
	var out []*wire.Up
	for {
		r := &wire.Up{}
		err := in.Read(r)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("unpack a record: %w", err)
		}
		out = append(out, r)
	}
}
