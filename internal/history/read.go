package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/nephele/v1alpha1"
)

// Revision is one entry of the history, as people read it.
type Revision struct {
	// Name is NAMESPACE/NAME, or the name alone where there is no namespace.
	Name   string                  `json:"name"`
	Spec   v1alpha1.RevisionSpec   `json:"spec"`
	Status v1alpha1.RevisionStatus `json:"status"`
	// Unproven says why it is not certain that the controller has written it; empty if that is, or
	// was not looked at. See CheckAll.
	Unproven string `json:"unproven,omitempty"`
}

// Filter says which revisions are asked for; what is empty asks for all.
type Filter struct {
	// Namespace takes revisions of one namespace only.
	Namespace string
	// Policy is NAMESPACE/NAME or NAME of a policy, group or tier. A name alone means that in
	// Namespace, or one without a namespace.
	Policy string
	// Account takes those for whose sake something was done in an account, NAMESPACE/NAME.
	Account string
	// Since takes younger ones.
	Since time.Time
}

func (f Filter) takes(r *Revision) bool {
	o := r.Spec.Object
	switch {
	case f.Policy != "" && f.Policy != strings.TrimPrefix(o.Namespace+"/"+o.Name, "/") && (f.Namespace == "" || f.Policy != o.Name):
		return false
	case f.Account != "" && !slices.ContainsFunc(r.Status.Accounts, func(a v1alpha1.RevisionAccount) bool { return a.Account == f.Account }):
		return false
	}
	return !r.Spec.Time.Time.Before(f.Since)
}

// NotRead are parts of the history that the reader may not see.
type NotRead struct{ Reasons []string }

// List reads the revisions that a filter takes, the youngest first. What the reader may not see is
// reported, unless it is all there is.
func List(ctx context.Context, c client.Reader, f Filter) ([]Revision, NotRead, error) {
	var out []Revision
	var missing NotRead
	take := func(r Revision) {
		if f.takes(&r) {
			out = append(out, r)
		}
	}
	namespace := f.Namespace
	if ns, _, ok := strings.Cut(f.Policy, "/"); ok {
		if namespace != "" && namespace != ns {
			return nil, missing, fmt.Errorf("%s is not in namespace %s", f.Policy, namespace)
		}
		namespace = ns
	}
	asked := 0
	// A name alone, without a namespace, is that of an object that is in none.
	if namespace != "" || f.Policy == "" {
		asked++
		list := &v1alpha1.PolicyRevisionList{}
		err := pages(ctx, c, list, namespace, func() {
			for i := range list.Items {
				o := &list.Items[i]
				take(Revision{Name: o.Namespace + "/" + o.Name, Spec: o.Spec, Status: o.Status})
			}
		})
		if err := missing.note(err, "revisions in namespaces", "take one with -n"); err != nil {
			return nil, missing, err
		}
	}
	if namespace == "" {
		asked++
		list := &v1alpha1.ClusterPolicyRevisionList{}
		err := pages(ctx, c, list, "", func() {
			for i := range list.Items {
				o := &list.Items[i]
				take(Revision{Name: o.Name, Spec: o.Spec, Status: o.Status})
			}
		})
		if err := missing.note(err, "revisions without namespace", "they are for users who may list them in the whole cluster"); err != nil {
			return nil, missing, err
		}
	}
	if len(missing.Reasons) == asked {
		return nil, missing, errors.New(strings.Join(missing.Reasons, "; "))
	}
	slices.SortFunc(out, func(a, b Revision) int {
		return cmp.Or(b.Spec.Time.Compare(a.Spec.Time.Time), cmp.Compare(b.Spec.Number, a.Spec.Number), cmp.Compare(a.Name, b.Name))
	})
	return out, missing, nil
}

// note keeps that something may not be read, and returns other errors.
func (m *NotRead) note(err error, what, hint string) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err):
		m.Reasons = append(m.Reasons, fmt.Sprintf("not allowed to list %s: %s", what, hint))
		return nil
	}
	return noHistory(err)
}

// noHistory says in words that there are no definitions.
func noHistory(err error) error {
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) && strings.Contains(err.Error(), "the server could not find the requested resource") {
		return errors.New("the cluster keeps no history: the definitions of nephele.io are not installed")
	}
	return fmt.Errorf("read the history: %w", err)
}

func pages(ctx context.Context, c client.Reader, list client.ObjectList, namespace string, next func()) error {
	for more := ""; ; {
		if err := c.List(ctx, list, client.InNamespace(namespace), client.Limit(pageSize), client.Continue(more)); err != nil {
			return err
		}
		next()
		if more = list.GetContinue(); more == "" {
			return nil
		}
	}
}

// Get reads one revision by its name; a name alone means one in namespace, if that is given.
func Get(ctx context.Context, c client.Reader, namespace, name string) (*Revision, error) {
	if ns, own, ok := strings.Cut(name, "/"); ok {
		namespace, name = ns, own
	}
	key := client.ObjectKey{Namespace: namespace, Name: name}
	o, spec, status := revisionAt(key)
	err := c.Get(ctx, key, o)
	switch {
	case apierrors.IsNotFound(err) && !strings.Contains(err.Error(), "could not find the requested resource"):
		return nil, fmt.Errorf("there is no revision %s (any more): see nephele history", strings.TrimPrefix(key.String(), "/"))
	case err != nil:
		return nil, noHistory(err)
	}
	return &Revision{Name: strings.TrimPrefix(key.String(), "/"), Spec: *spec, Status: *status}, nil
}

// Before returns the revision of the same object that came before one and has a content; nil if
// there is none any more.
func Before(ctx context.Context, c client.Reader, r *Revision) (*Revision, error) {
	o := r.Spec.Object
	f := Filter{Namespace: o.Namespace, Policy: strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")}
	all, _, err := List(ctx, c, f)
	if err != nil {
		return nil, err
	}
	var best *Revision
	for i := range all {
		s := &all[i].Spec
		if nameOf(s.Object) == nameOf(o) && s.Number < r.Spec.Number && s.Change != v1alpha1.RevisionDeleted && (best == nil || s.Number > best.Spec.Number) {
			best = &all[i]
		}
	}
	return best, nil
}

// Restored returns what is to be written so that an object becomes what it was: live with the spec
// and the annotations of nephele.io of then, or what it was if live is nil. Labels and annotations
// of others stay as they are.
func Restored(then, live *unstructured.Unstructured) *unstructured.Unstructured {
	if live == nil {
		return then.DeepCopy()
	}
	out := live.DeepCopy()
	out.Object["spec"] = then.DeepCopy().Object["spec"]
	notes := maps.Clone(live.GetAnnotations())
	maps.DeleteFunc(notes, func(key, _ string) bool { return strings.HasPrefix(key, ours) })
	for key, value := range then.GetAnnotations() {
		if strings.HasPrefix(key, ours) {
			if notes == nil {
				notes = map[string]string{}
			}
			notes[key] = value
		}
	}
	out.SetAnnotations(notes)
	return out
}

// Shown returns of an object what a revision keeps: what of it is compared with one.
func Shown(o *unstructured.Unstructured) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{}}
	out.SetAPIVersion(o.GetAPIVersion())
	out.SetKind(o.GetKind())
	out.SetNamespace(o.GetNamespace())
	out.SetName(o.GetName())
	out.SetLabels(o.GetLabels())
	if notes := applied(o); len(notes) > 0 {
		out.SetAnnotations(notes)
	}
	if spec, ok := o.DeepCopy().Object["spec"]; ok {
		out.Object["spec"] = spec
	}
	return out
}
