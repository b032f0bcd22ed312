package history

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/nephele/v1alpha1"
	"github.com/nephele-io/nephele/internal/kinds"
)

// ours is the prefix of annotations that mean something to Nephele.
const ours = "nephele.io/"

const (
	// maxPlain is how long a content may be that is kept as it is, and maxKept how long,
	// compressed, one that is kept at all.
	maxPlain = 8 << 10
	maxKept  = 256 << 10
	// maxUnpacked bounds what is unpacked of one.
	maxUnpacked = 8 << 20
)

// kind is one kind of objects that have a history.
type kind struct{ kinds.Kind }

// index of the kinds, by the Go type of their objects, and by what they are called.
type kindTable struct {
	byType map[string]kind
	byName map[[2]string]kind
}

func newKindTable() kindTable {
	t := kindTable{map[string]kind{}, map[[2]string]kind{}}
	for _, k := range kinds.All() {
		if k.Revised == "" {
			continue
		}
		t.byType[fmt.Sprintf("%T", k.New())] = kind{k}
		t.byName[[2]string{k.Group, k.Kind}] = kind{k}
		t.byName[[2]string{k.Group, k.Resource}] = kind{k}
	}
	return t
}

// of returns the kind of an object; false if it has no history.
func (t kindTable) of(o client.Object) (kind, bool) {
	k, ok := t.byType[fmt.Sprintf("%T", o)]
	return k, ok
}

// revised names an object as revisions do.
func (k kind) revised(o client.Object) v1alpha1.RevisedObject {
	return v1alpha1.RevisedObject{Group: k.Group, Version: k.Version, Kind: k.Kind.Kind, Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID()}
}

// applied are the annotations of an object that mean something to Nephele.
func applied(o client.Object) map[string]string {
	var out map[string]string
	for key, value := range o.GetAnnotations() {
		if strings.HasPrefix(key, ours) {
			if out == nil {
				out = map[string]string{}
			}
			out[key] = value
		}
	}
	return out
}

// fingerprint tells versions of one object apart without looking at all of it: the API server
// counts specs, and nothing else.
func fingerprint(o client.Object) string {
	notes := applied(o)
	if len(notes) == 0 {
		return fmt.Sprint(o.GetGeneration())
	}
	var b strings.Builder
	fmt.Fprint(&b, o.GetGeneration())
	for _, key := range slices.Sorted(maps.Keys(notes)) {
		fmt.Fprintf(&b, " %q=%q", key, notes[key])
	}
	return b.String()
}

// content is what of an object can be applied again.
type content struct {
	json []byte
	// hash is that of what counts in it.
	hash string
}

// contentOf returns the content of an object. Labels and annotations of others are not what
// policies mean, and do not count.
func (k kind) contentOf(o client.Object) (content, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return content{}, fmt.Errorf("convert %s %s: %w", k.Kind.Kind, o.GetName(), err)
	}
	counts, err := json.Marshal(map[string]any{"spec": fields["spec"], "annotations": applied(o)})
	if err != nil {
		return content{}, fmt.Errorf("encode %s %s: %w", k.Kind.Kind, o.GetName(), err)
	}
	sum := sha256.Sum256(counts)
	meta := map[string]any{"name": o.GetName()}
	if o.GetNamespace() != "" {
		meta["namespace"] = o.GetNamespace()
	}
	if len(o.GetLabels()) > 0 {
		meta["labels"] = o.GetLabels()
	}
	if notes := applied(o); len(notes) > 0 {
		meta["annotations"] = notes
	}
	whole, err := json.Marshal(map[string]any{"apiVersion": k.GroupVersion().String(), "kind": k.Kind.Kind, "metadata": meta, "spec": fields["spec"]})
	if err != nil {
		return content{}, fmt.Errorf("encode %s %s: %w", k.Kind.Kind, o.GetName(), err)
	}
	return content{whole, hex.EncodeToString(sum[:16])}, nil
}

// pack puts a content into a revision; one that is too large even compressed is left out, and its
// size remains.
func pack(c content, into *v1alpha1.RevisionSpec) error {
	into.Hash, into.Size = c.hash, int64(len(c.json))
	if len(c.json) <= maxPlain {
		into.Content = string(c.json)
		return nil
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write(c.json)
	if err := errors.Join(err, z.Close()); err != nil {
		return fmt.Errorf("compress a revision: %w", err)
	}
	if b.Len() <= maxKept {
		into.Compressed = base64.StdEncoding.EncodeToString(b.Bytes())
	}
	return nil
}

// Content returns the object of a revision, as it was. It fails if the revision has none.
func Content(s *v1alpha1.RevisionSpec) (*unstructured.Unstructured, error) {
	text := []byte(s.Content)
	switch {
	case s.Change == v1alpha1.RevisionDeleted:
		return nil, errors.New("the revision says that the object was deleted: there is nothing of it to be shown or applied; take the one before")
	case len(text) == 0 && len(s.Compressed) == 0:
		return nil, fmt.Errorf("the content was not kept: its %d bytes were too many", s.Size)
	case len(text) == 0:
		z, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(s.Compressed)))
		if err != nil {
			return nil, fmt.Errorf("the content cannot be unpacked: %w", err)
		}
		if text, err = io.ReadAll(io.LimitReader(z, maxUnpacked+1)); err != nil {
			return nil, fmt.Errorf("the content cannot be unpacked: %w", err)
		}
		if len(text) > maxUnpacked {
			return nil, fmt.Errorf("the content is larger than %d bytes", maxUnpacked)
		}
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(text); err != nil {
		return nil, fmt.Errorf("the content cannot be read: %w", err)
	}
	want := s.Object
	if gvk := o.GroupVersionKind(); gvk.Group != want.Group || gvk.Kind != want.Kind || o.GetNamespace() != want.Namespace || o.GetName() != want.Name {
		return nil, fmt.Errorf("the content is %s %s/%s, and the revision is about %s %s/%s", gvk.Kind, o.GetNamespace(), o.GetName(), want.Kind, want.Namespace, want.Name)
	}
	return o, nil
}
