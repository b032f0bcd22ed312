package webhook

import (
	"context"
	"fmt"
	"iter"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/admission"
)

// State is what decisions look up about other objects.
type State interface {
	// Tiers returns all tiers.
	Tiers(ctx context.Context) ([]policy.Tier, error)
	// PolicyIn returns an Antrea policy that refers to a tier, or nil if there is none.
	PolicyIn(ctx context.Context, tier string) (*policy.Policy, error)
	// Groups returns the Groups of a Namespace, or the ClusterGroups if that is empty.
	Groups(ctx context.Context, namespace string) ([]policy.Group, error)
	// Member reports whether this cluster is a member of a set.
	Member(ctx context.Context) (bool, error)
	// Entities returns the ExternalEntities of a Namespace, or all if that is empty. It is asked of
	// the cache only.
	Entities(ctx context.Context, namespace string) (iter.Seq[admission.Entity], error)
	// Tells reports whether warnings may tell what there is.
	Tells() bool
}

// states are the two views of the same objects.
type states struct{ cached, live State }

// settled decides on the cache, and once more on the API if that finds fault.
func (s *states) settled(decide func(State) ([]policy.FieldError, error)) answer {
	errs, err := decide(s.cached)
	if len(errs) > 0 || err != nil {
		errs, err = decide(s.live)
	}
	return answer{errs: errs, err: err}
}

// limited is a State of which only so many are asked at a time.
type limited struct {
	State
	limits *limits
}

// Tiers implements State.
func (s limited) Tiers(ctx context.Context) ([]policy.Tier, error) {
	done, err := s.limits.asking(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return s.State.Tiers(ctx)
}

// PolicyIn implements State.
func (s limited) PolicyIn(ctx context.Context, tier string) (*policy.Policy, error) {
	done, err := s.limits.asking(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return s.State.PolicyIn(ctx, tier)
}

// Groups implements State.
func (s limited) Groups(ctx context.Context, namespace string) ([]policy.Group, error) {
	done, err := s.limits.asking(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return s.State.Groups(ctx, namespace)
}

// Member implements State.
func (s limited) Member(ctx context.Context) (bool, error) {
	done, err := s.limits.asking(ctx)
	if err != nil {
		return false, err
	}
	defer done()
	return s.State.Member(ctx)
}

// pageSize is how many objects are read at a time where there may be many.
const pageSize = 100

// Reading is a State that reads from a cache or from the API.
type Reading struct {
	client.Reader
	// Live says that it reads from the API, in pages.
	Live bool
	// Proven says that only kube-apiserver is answered, so that the receiver of a warning may write
	// the policy that it is about.
	Proven bool
}

// Tiers implements State.
func (r Reading) Tiers(ctx context.Context) ([]policy.Tier, error) {
	var list v1beta1.TierList
	if err := r.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list tiers: %w", err)
	}
	out := make([]policy.Tier, len(list.Items))
	for i := range list.Items {
		out[i] = convert.Tier(&list.Items[i])
	}
	return out, nil
}

// Groups implements State.
func (r Reading) Groups(ctx context.Context, namespace string) ([]policy.Group, error) {
	var out []policy.Group
	if namespace == "" {
		list := &v1beta1.ClusterGroupList{}
		err := r.pages(ctx, list, "", func() bool {
			for i := range list.Items {
				out = append(out, convert.ClusterGroup(&list.Items[i]))
			}
			return true
		})
		return out, err
	}
	list := &v1beta1.GroupList{}
	err := r.pages(ctx, list, namespace, func() bool {
		for i := range list.Items {
			out = append(out, convert.Group(&list.Items[i]))
		}
		return true
	})
	return out, err
}

// Member implements State. Where there is no such kind, or it is not to be read, this cluster is
// none.
func (r Reading) Member(ctx context.Context) (bool, error) {
	var list setv1alpha1.MembershipList
	err := r.List(ctx, &list)
	switch {
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("list Memberships: %w", err)
	}
	return len(list.Items) > 0, nil
}

// PolicyIn implements State.
func (r Reading) PolicyIn(ctx context.Context, tier string) (*policy.Policy, error) {
	var found *policy.Policy
	cluster := &v1beta1.ClusterNetworkPolicyList{}
	err := r.pages(ctx, cluster, "", func() bool {
		for i := range cluster.Items {
			if p := &cluster.Items[i]; p.Spec.Tier == tier {
				found = &policy.Policy{Name: p.Name, Tier: tier}
			}
		}
		return found == nil
	})
	if err != nil || found != nil {
		return found, err
	}
	list := &v1beta1.NetworkPolicyList{}
	err = r.pages(ctx, list, "", func() bool {
		for i := range list.Items {
			if p := &list.Items[i]; p.Spec.Tier == tier {
				found = &policy.Policy{Namespace: p.Namespace, Name: p.Name, Tier: tier}
			}
		}
		return found == nil
	})
	return found, err
}

// pages lists, and calls next after every page until it returns false. Objects of a cache are not
// copied: they are only read.
func (r Reading) pages(ctx context.Context, list client.ObjectList, namespace string, next func() bool) error {
	options := []client.ListOption{client.InNamespace(namespace)}
	if r.Live {
		options = append(options, client.Limit(pageSize))
	} else {
		options = append(options, client.UnsafeDisableDeepCopy)
	}
	for {
		if err := r.List(ctx, list, options...); err != nil {
			return fmt.Errorf("list %T: %w", list, err)
		}
		if !next() || list.GetContinue() == "" {
			return nil
		}
		options = []client.ListOption{client.InNamespace(namespace), client.Limit(pageSize), client.Continue(list.GetContinue())}
	}
}
