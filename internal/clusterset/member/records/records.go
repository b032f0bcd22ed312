// Package records keeps remote groups on record, so that a member knows them after a restart.
//
// It owns the RemoteGroup objects and what is known of them: which groups are on record, and which
// of these have changed since. It promises:
//
//   - A group that is written for the first time is on record when Write returns without error.
//   - Changes of a group on record wait for at most Pause and one round of the writer, and are written together.
//   - What could not be written stays due.
//
// All methods may be called from anywhere. The lock is held for no call to others.
package records

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
)

// Pause is how long changes of a group that is on record may wait to be recorded.
const Pause = 10 * time.Second

// Options are what Records need. All are required.
type Options struct {
	// Client writes; Live reads from the API server.
	Client client.Client
	Live   client.Reader
	Clock  clock.PassiveClock
}

// Records keep remote groups on record. See the package comment; use New.
type Records struct {
	Options

	mu sync.Mutex
	// recorded are the groups on record; stale are those that have changed since.
	recorded, stale map[string]bool
	// last is when changes were written last.
	last time.Time
}

// Content is what a group is recorded as.
type Content struct {
	// Known is false for a group that is none any more: its record goes.
	Known   bool
	Text    []byte
	Members int
}

// New returns Records that know of none.
func New(o Options) *Records {
	return &Records{Options: o, recorded: map[string]bool{}, stale: map[string]bool{}}
}

// Loaded takes over groups that are on record, as they are.
func (r *Records) Loaded(groups []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.stale)
	for _, g := range groups {
		r.recorded[g] = true
	}
}

// Changed takes over that groups have changed.
func (r *Records) Changed(groups []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, g := range groups {
		r.stale[g] = true
	}
}

// Waiting reports whether groups wait to be recorded.
func (r *Records) Waiting() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.stale) > 0
}

// Missing are the groups among some that are not on record.
func (r *Records) Missing(groups []string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, g := range groups {
		if !r.recorded[g] {
			out = append(out, g)
		}
	}
	return out
}

// Due are the groups to record now. These are all that have changed, unless that was so shortly
// before; then only those that are not on record and that the hub has answered, because policies
// that are in force name them.
func (r *Records) Due(answered func(group string) bool) []string {
	due, all := r.changed()
	if all {
		return due
	}
	return slices.DeleteFunc(due, func(g string) bool { return !answered(g) })
}

// changed are the groups that have changed: all, or those alone that are not on record if the
// others were written shortly before.
func (r *Records) changed() (groups []string, all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	groups = slices.Sorted(maps.Keys(r.stale))
	if now := r.Clock.Now(); now.Sub(r.last) >= Pause {
		r.last = now
		return groups, true
	}
	return slices.DeleteFunc(groups, func(g string) bool { return r.recorded[g] }), false
}

// Write records groups as what content says that they are when it is called, one after the other,
// and ends with the first that fails.
func (r *Records) Write(ctx context.Context, groups []string, content func(group string) (Content, error)) error {
	for _, g := range groups {
		r.begin(g)
		c, err := content(g)
		if err == nil {
			err = r.write(ctx, g, c)
		}
		r.done(g, c.Known, err)
		if err != nil {
			return err
		}
	}
	return nil
}

// begin notes that what a group is from now on is not on record yet.
func (r *Records) begin(g string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.stale, g)
}

// done notes what became of it.
func (r *Records) done(g string, known bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil:
		r.stale[g] = true
	case known:
		r.recorded[g] = true
	default:
		delete(r.recorded, g)
	}
}

func (r *Records) write(ctx context.Context, group string, c Content) error {
	o := &setv1alpha1.RemoteGroup{ObjectMeta: metav1.ObjectMeta{Name: group}}
	if !c.Known {
		if err := r.Client.Delete(ctx, o); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("remove the record of group %s: %w", group, err)
		}
		return nil
	}
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(o), o)
	absent := apierrors.IsNotFound(err)
	if err == nil || absent {
		o.Name, o.Members, o.Content = group, int32(c.Members), base64.StdEncoding.EncodeToString(c.Text)
		if absent {
			err = r.Client.Create(ctx, o)
		} else {
			err = r.Client.Update(ctx, o)
		}
	}
	if err != nil {
		return fmt.Errorf("record group %s: %w", group, err)
	}
	return nil
}
