package controller

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/realize"
	"github.com/nephele-io/nephele/internal/clusterset/claims"
)

// yields are the regions of accounts that another member of the set works on, by what the hub has
// said last: this cluster leaves them alone.
type yields struct {
	client.Reader
	// there says that this cluster may be a member: it knows the kind.
	there bool
}

// yielded is why a region is left alone.
type yielded struct{ region, by string }

// Error implements error.
func (y *yielded) Error() string {
	return fmt.Sprintf("%s is left to cluster %s of the set, which works on it: nothing is changed there from here", y.region, y.by)
}

// apply leaves regions of an account alone. An account that is given back is given back.
func (y *yields) apply(a *realize.Account) {
	if y == nil || !y.there || a.Releasing {
		return
	}
	// The cache answers at once. Without a Membership nothing is claimed.
	var membership setv1alpha1.Membership
	if y.Get(context.Background(), client.ObjectKey{Name: setv1alpha1.MembershipName}, &membership) != nil || len(membership.Status.TakenAccounts) == 0 {
		return
	}
	namespace, name, _ := strings.Cut(a.Key, "/")
	var account cloudv1.CloudProviderAccount
	if y.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: name}, &account) != nil {
		return
	}
	for _, t := range membership.Status.TakenAccounts {
		region, ours := strings.CutPrefix(t.Region, claims.RegionOf(&account, ""))
		if !ours {
			continue
		}
		delete(a.Snapshots, region)
		if a.Unread == nil {
			a.Unread = map[string]error{}
		}
		a.Unread[region] = &yielded{region, t.By}
	}
}

// informers gives out informers; a cache.Cache does.
type informers interface {
	GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error)
}

// follow calls changed whenever the hub says something else. It is called before apply may be.
func (y *yields) follow(ctx context.Context, in informers, changed func()) error {
	informer, err := in.GetInformer(ctx, &setv1alpha1.Membership{}, cache.BlockUntilSynced(false))
	if meta.IsNoMatchError(err) { // this cluster can be no member
		return nil
	}
	if err != nil {
		return fmt.Errorf("watch the Membership: %w", err)
	}
	taken := func(o any) []setv1alpha1.TakenAccount {
		if m, is := o.(*setv1alpha1.Membership); is {
			return m.Status.TakenAccounts
		}
		return nil
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) {
			if len(taken(o)) > 0 {
				changed()
			}
		},
		UpdateFunc: func(before, after any) {
			if !equality.Semantic.DeepEqual(taken(before), taken(after)) {
				changed()
			}
		},
		DeleteFunc: func(any) { changed() },
	})
	if err != nil {
		return fmt.Errorf("watch the Membership: %w", err)
	}
	y.there = true
	return nil
}
