package member

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/claims"
	"github.com/nephele-io/nephele/internal/clusterset/feed"
	"github.com/nephele-io/nephele/internal/clusterset/plain"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/policy"
)

// listen begins to follow what the hub is told of, and the copies of its policies; once. It returns
// when all that there was has been heard, so that no stream begins with a part of it.
func (m *Member) listen(ctx context.Context) error {
	m.mu.Lock()
	fed := m.fed
	m.fed = true
	m.mu.Unlock()
	if fed {
		return nil
	}
	if err := m.followExports(ctx, false); err != nil {
		return m.unfed(err)
	}
	var synced []toolscache.InformerSynced
	for _, o := range []client.Object{
		&corev1.Namespace{}, &corev1.Pod{}, &corev1.Node{}, &v1alpha2.ExternalEntity{}, &v1beta1.ClusterNetworkPolicy{}, &v1beta1.NetworkPolicy{}, &networkingv1.NetworkPolicy{},
		&cloudv1.CloudProviderAccount{}, &corev1.Service{},
	} {
		informer, err := m.Informers.GetInformer(ctx, o, cache.BlockUntilSynced(false))
		if _, account := o.(*cloudv1.CloudProviderAccount); account && meta.IsNoMatchError(err) {
			continue // there are no clouds
		}
		if err != nil {
			return m.unfed(fmt.Errorf("watch %T: %w", o, err))
		}
		registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { m.hear(o, false) },
			UpdateFunc: func(_, o any) { m.hear(o, false) },
			DeleteFunc: func(o any) {
				if last, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
					o = last.Obj
				}
				m.hear(o, true)
			},
		})
		if err != nil {
			return m.unfed(fmt.Errorf("watch %T: %w", o, err))
		}
		synced = append(synced, registration.HasSynced)
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), synced...) {
		return ctx.Err()
	}
	m.awaitExports(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.services.begin()
	m.give()
	return nil
}

func (m *Member) unfed(err error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fed = false
	return err
}

// hear takes over an object that is new, has changed, or is gone.
func (m *Member) hear(o any, gone bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch o := o.(type) {
	case *corev1.Namespace:
		if o.Name == plain.Namespace && convert.FromHub(o) {
			break
		}
		if gone {
			m.feed.DropNamespace(o.Name)
		} else {
			m.feed.PutNamespace(o.Name, convert.Namespace(o).Labels)
			if m.ledger.NamespaceCame() {
				wake(m.work)
			}
		}
	case *convert.TrimmedPod:
		e, _ := o.Entity()
		hearEntity(m.feed, &e, gone)
	case *corev1.Pod:
		e, _ := convert.Pod(o)
		hearEntity(m.feed, &e, gone)
	case *corev1.Node:
		e, _ := convert.Node(o)
		hearEntity(m.feed, &e, gone)
	case *v1alpha2.ExternalEntity:
		if plain.Is(o) {
			if m.entities != nil { // an edit is undone
				m.entities.Hear(o, gone)
				wake(m.work)
			}
			break
		}
		e, _ := convert.ExternalEntity(o)
		hearEntity(m.feed, &e, gone)
	case *corev1.Service:
		m.services.update(o, gone)
	case *cloudv1.CloudProviderAccount:
		m.feed.PutAccount(o.Namespace+"/"+o.Name, regionsOf(o, gone))
	case client.Object:
		if convert.FromHub(o) {
			m.hearCopy(o, gone)
		}
		if m.entities == nil { // an Antrea Controller has its own mind about scopes
			m.hearOwn(o, gone)
		}
	}
	m.services.serve()
	m.give()
	wake(m.told)
}

// regionsOf are the regions of an account that this cluster may write to. One that is only planned
// for may be another controller's.
func regionsOf(a *cloudv1.CloudProviderAccount, gone bool) []string {
	if gone || a.Status.CloudAccountID == "" || a.Spec.Mode == cloudv1.ModePlan {
		return nil
	}
	var out []string
	for i := range a.Status.Regions {
		out = append(out, claims.RegionOf(a, a.Status.Regions[i].Name))
	}
	slices.Sort(out)
	return out
}

func hearEntity(to *feed.Feed, e *policy.Entity, gone bool) {
	if gone {
		to.DropEntity(e.EntityRef)
	} else {
		to.PutEntity(e)
	}
}

// hearOwn takes over a policy that may be this cluster's own. The caller holds the lock.
func (m *Member) hearOwn(o client.Object, gone bool) {
	names, changed := m.own.Hear(o, gone)
	if names != nil {
		m.services.note(names)
	}
	if changed {
		m.annotate()
		wake(m.work)
	}
}
