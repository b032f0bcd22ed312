package webhook

import (
	"context"
	"fmt"
	"iter"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/admission"
)

// asides are what looks like a mistake in a policy that is accepted: it may well come before what
// it names. What cannot be looked up is not mentioned, and unauthenticated callers learn nothing
// about existing objects.
func asides(ctx context.Context, s State, p *policy.Policy) []string {
	found := append(admission.HostBits(p), admission.NeverMatches(p)...)
	found = append(append(append(found, admission.OpensManagement(p)...), admission.OpensToInternet(p)...), admission.OneFamily(p)...)
	if !s.Tells() {
		return said(found)
	}
	if groups, err := s.Groups(ctx, p.Namespace); err == nil {
		var names []string
		for _, g := range groups {
			names = append(names, g.Name)
		}
		found = append(found, admission.NoSuchGroup(p, names)...)
	}
	if known, err := s.Entities(ctx, p.Namespace); err == nil {
		found = append(found, admission.SelectsNobody(p, known)...)
	}
	return said(found)
}

func said(found []policy.FieldError) []string {
	var out []string
	for _, f := range found {
		out = append(out, f.Error())
	}
	return out
}

// Tells implements State.
func (r Reading) Tells() bool { return r.Proven }

// Entities implements State.
func (r Reading) Entities(ctx context.Context, namespace string) (iter.Seq[admission.Entity], error) {
	list := &v1alpha2.ExternalEntityList{}
	options := []client.ListOption{client.InNamespace(namespace)}
	if !r.Live {
		options = append(options, client.UnsafeDisableDeepCopy) // they are only read
	}
	if err := r.List(ctx, list, options...); err != nil {
		return nil, fmt.Errorf("list %T: %w", list, err)
	}
	return func(yield func(admission.Entity) bool) {
		for i := range list.Items {
			if !yield(admission.Entity{Namespace: list.Items[i].Namespace, Labels: list.Items[i].Labels}) {
				return
			}
		}
	}, nil
}
