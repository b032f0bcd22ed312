package history

import (
	"encoding/json"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/api/nephele/v1alpha1"
)

const (
	// maxAuthors bounds the changes of one namespace that were admitted and not yet seen; with
	// more, the oldest go. maxNamespaces bounds the namespaces.
	maxAuthors    = 128
	maxNamespaces = 1024
)

// admitted names a version of an object as admission sees it.
type admitted struct {
	uid  types.UID
	hash string
}

// Authors remembers for a short while the users whose changes were admitted. Admission comes before
// the change is stored, and others may still refuse it: that a version is remembered does not mean
// that there is one. It is safe for concurrent use.
type Authors struct {
	kinds kindTable

	mu         sync.Mutex
	namespaces map[string]*authorRing
}

// authorRing are the authors of one namespace, in order.
type authorRing struct {
	order []admitted
	known map[admitted]v1alpha1.RevisionAuthor
}

// NewAuthors returns an Authors that knows no one.
func NewAuthors() *Authors {
	return &Authors{kinds: newKindTable(), namespaces: map[string]*authorRing{}}
}

// Admitted notes that a user may change an object, which is given in JSON as the API server is
// about to store it. What cannot be read is passed over: it is not for a history to refuse
// anything.
func (a *Authors) Admitted(group, resource string, object []byte, user string) {
	k, ok := a.kinds.byName[[2]string{group, resource}]
	if !ok {
		return
	}
	o := k.New()
	if err := json.Unmarshal(object, o); err != nil || o.GetUID() == "" {
		return
	}
	c, err := k.contentOf(o)
	if err != nil {
		return
	}
	if len(user) > maxMessage {
		user = user[:maxMessage-3] + "..."
	}
	a.put(o.GetNamespace(), admitted{o.GetUID(), c.hash}, v1alpha1.RevisionAuthor{User: cut(user), Manager: lastManager(o)})
}

// deletion represents the content of an object that is deleted.
const deletion = "deleted"

// Deleted notes that a user may delete an object.
func (a *Authors) Deleted(group, resource string, object []byte, user string) {
	if _, ok := a.kinds.byName[[2]string{group, resource}]; !ok {
		return
	}
	var o metav1.PartialObjectMetadata
	if err := json.Unmarshal(object, &o); err != nil || o.UID == "" {
		return
	}
	if len(user) > maxMessage {
		user = user[:maxMessage-3] + "..."
	}
	a.put(o.Namespace, admitted{o.UID, deletion}, v1alpha1.RevisionAuthor{User: cut(user)})
}

func (a *Authors) put(namespace string, key admitted, author v1alpha1.RevisionAuthor) {
	a.mu.Lock()
	defer a.mu.Unlock()
	ring := a.namespaces[namespace]
	if ring == nil {
		if len(a.namespaces) >= maxNamespaces {
			for other := range a.namespaces { // any: eviction order does not matter for a flood
				delete(a.namespaces, other)
				break
			}
		}
		ring = &authorRing{known: map[admitted]v1alpha1.RevisionAuthor{}}
		a.namespaces[namespace] = ring
	}
	if _, known := ring.known[key]; !known {
		ring.order = append(ring.order, key)
	}
	ring.known[key] = author
	for len(ring.order) > maxAuthors {
		delete(ring.known, ring.order[0])
		ring.order = append(ring.order[:0:0], ring.order[1:]...)
	}
}

// of returns the user whose change to this version was admitted; false if admission did not see it.
func (a *Authors) of(namespace string, key admitted) (v1alpha1.RevisionAuthor, bool) {
	if a == nil {
		return v1alpha1.RevisionAuthor{}, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	ring := a.namespaces[namespace]
	if ring == nil {
		return v1alpha1.RevisionAuthor{}, false
	}
	author, ok := ring.known[key]
	return author, ok
}

// String says how much is remembered.
func (a *Authors) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for _, r := range a.namespaces {
		n += len(r.order)
	}
	return fmt.Sprintf("%d authors in %d namespaces", n, len(a.namespaces))
}
