package hub

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
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
)

const (
	// recordPause is how often what is believed of a member is recorded at most. An old record is
	// of use all the same: it counts only for those who know nothing newer, until the member
	// speaks.
	recordPause = 5 * time.Minute
	// mostRecord bounds the content of an object, and mostParts of how many objects a record is.
	mostRecord = 1 << 20
	mostParts  = 1024
	// mostUnpacked bounds a record when it is read.
	mostUnpacked = 64 << 20
)

// recorded is what is on record of a member.
type recorded struct {
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

// recall reads what is on record of members. It is called before any member may speak.
func (h *Hub) recall(ctx context.Context) error {
	var list setv1alpha1.ClusterRecordList
	err := h.Live.List(ctx, &list)
	switch {
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return nil
	case apierrors.IsForbidden(err): // then nothing was ever written
		h.Log.Info("What members have is not kept over a restart: apply config/overlays/cluster-set again", "reason", err.Error())
		return nil
	case err != nil:
		return fmt.Errorf("read what is on record of members: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.recalled = map[string][]*setv1alpha1.ClusterRecord{}
	for i := range list.Items {
		r := &list.Items[i]
		h.recalled[r.Cluster] = append(h.recalled[r.Cluster], r)
	}
	return nil
}

// remember takes over what is on record of a member that has become known. The caller holds the
// lock.
func (h *Hub) remember(m *member) {
	name := m.cluster.Name
	parts := h.recalled[name]
	delete(h.recalled, name)
	for _, r := range parts {
		m.recorded.parts = max(m.recorded.parts, partOf(r.Name)+1)
		if r.ClusterUID != string(m.cluster.UID) {
			continue // of a Cluster that was there before under this name
		}
		records, err := unpack(r.Content)
		if err != nil {
			h.Log.Error(err, "A part of what is on record of a member is left out", "record", r.Name)
			continue
		}
		h.union.Recall(name, records)
	}
}

// record keeps what is believed of members on record.
func (h *Hub) record(ctx context.Context) {
	ticker := h.Clock.NewTicker(statusPause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
		for name, parts := range h.toUnrecord() {
			if err := h.unrecord(ctx, name, 0, parts); err != nil && ctx.Err() == nil {
				h.Log.V(1).Info("What a former member had is still on record, trying again", "cluster", name, "reason", err.Error())
				h.unrecordAgain(name, parts)
			}
		}
		for _, name := range h.toRecord() {
			r, err := h.recordOf(name)
			if err == nil && r != nil {
				err = h.store(ctx, r)
			}
			if err != nil && ctx.Err() == nil {
				h.Log.Error(err, "What a member has was not recorded; it is tried again", "cluster", name, "in", recordPause.String())
				h.unwritten(name)
			}
		}
	}
}

// forgotten notes that the records are to go of those who are no members. The caller holds the
// lock.
func (h *Hub) forgotten() {
	for name, parts := range h.recalled {
		for _, r := range parts {
			h.dropped[name] = max(h.dropped[name], partOf(r.Name)+1)
		}
	}
	h.recalled = nil
}

// toUnrecord are those whose records are to go, with the number of their parts.
func (h *Hub) toUnrecord() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := maps.Clone(h.dropped)
	clear(h.dropped)
	return out
}

func (h *Hub) unrecordAgain(name string, parts int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dropped[name] = max(h.dropped[name], parts)
}

// toRecord are the members of which something new is believed, and not too shortly after the last
// record. Before a member has told all, its former record is worth more.
func (h *Hub) toRecord() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []string
	for _, name := range slices.Sorted(maps.Keys(h.clusters)) {
		r := &h.clusters[name].recorded
		if h.union.Counts(name).Heard && h.union.Version(name) != r.version && (r.at.IsZero() || h.Clock.Since(r.at) >= recordPause) {
			out = append(out, name)
		}
	}
	return out
}

// recordOf makes a record; nil if it would say what is on record already.
func (h *Hub) recordOf(name string) (*record, error) {
	for parts := 1; parts <= mostParts; parts *= 2 {
		r, last, content := h.believed(name, parts)
		if r == nil {
			return nil, nil
		}
		sum, fits := sha256.New(), true
		for n, records := range content {
			text, entities, err := pack(records)
			if err != nil {
				return nil, err
			}
			fits = fits && len(text) <= mostRecord
			_, _ = io.WriteString(sum, text+"\n")
			r.parts = append(r.parts, &setv1alpha1.ClusterRecord{
				ObjectMeta: metav1.ObjectMeta{Name: recordName(name, n)}, Cluster: name, ClusterUID: r.uid, Entities: entities, Content: text,
			})
		}
		if !fits {
			continue
		}
		if copy(r.sum[:], sum.Sum(nil)); r.sum == last {
			h.written(r)
			return nil, nil
		}
		return r, nil
	}
	return nil, fmt.Errorf("what there is of %s does not fit into %d objects", name, mostParts)
}

// believed is what a record of a member begins with, the sum of the last one, and the content,
// which never changes. The record is nil if nobody knows the member.
func (h *Hub) believed(name string, parts int) (r *record, last [sha256.Size]byte, content [][]*wire.Up) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.clusters[name]
	if m == nil {
		return nil, last, nil
	}
	r = &record{cluster: name, uid: string(m.cluster.UID), version: h.union.Version(name), former: m.recorded.parts}
	return r, m.recorded.sum, h.union.Records(name, parts)
}

// recordName is the name of a part. No name of a Cluster holds a dot.
func recordName(cluster string, part int) string { return fmt.Sprintf("%s.%d", cluster, part) }

func partOf(name string) int {
	var n int
	if _, err := fmt.Sscanf(name[max(0, slices.Index([]byte(name), '.')):], ".%d", &n); err != nil || n < 0 || n >= mostParts {
		return 0
	}
	return n
}

// store writes the parts of a record, the last first: when it comes to be of more parts, what moves
// is in a new one before it is taken out of an old one.
func (h *Hub) store(ctx context.Context, r *record) error {
	for _, part := range slices.Backward(r.parts) {
		present := &setv1alpha1.ClusterRecord{}
		err := h.Live.Get(ctx, client.ObjectKeyFromObject(part), present)
		switch {
		case apierrors.IsNotFound(err):
			err = h.Client.Create(ctx, part)
		case err == nil:
			part.ResourceVersion = present.ResourceVersion
			err = h.Client.Update(ctx, part)
		}
		if err != nil {
			return fmt.Errorf("record what %s has: %w", r.cluster, err)
		}
	}
	if err := h.unrecord(ctx, r.cluster, len(r.parts), r.former); err != nil {
		return err
	}
	h.written(r)
	return nil
}

// unrecord deletes parts of a record.
func (h *Hub) unrecord(ctx context.Context, cluster string, from, to int) error {
	for n := from; n < to; n++ {
		if err := h.Client.Delete(ctx, &setv1alpha1.ClusterRecord{ObjectMeta: metav1.ObjectMeta{Name: recordName(cluster, n)}}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("remove what is on record of %s: %w", cluster, err)
		}
	}
	return nil
}

func (h *Hub) written(r *record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if m := h.clusters[r.cluster]; m != nil && string(m.cluster.UID) == r.uid {
		m.recorded = recorded{r.version, r.sum, h.Clock.Now(), len(r.parts)}
	}
}

// unwritten notes that a record could not be made or kept: the next attempt costs as much.
func (h *Hub) unwritten(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if m := h.clusters[name]; m != nil {
		m.recorded.at = h.Clock.Now()
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
