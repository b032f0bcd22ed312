package apiserver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/api/stats/v1alpha1"
	"github.com/nephele-io/nephele/internal/apiserver/stats"
	"github.com/nephele-io/nephele/internal/apiserver/storage"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
)

func statistic(resource string) schema.GroupResource {
	return schema.GroupResource{Group: v1alpha1.GroupName, Resource: resource}
}

// summaries takes what enforcers have counted.
type summaries struct {
	storage.Resource
	book  *stats.Book
	given stats.Computed
	gate  gate
}

var _ rest.Creater = (*summaries)(nil)

func newSummaries(o Options, g gate) rest.Storage {
	r := storage.New(controlplane("nodestatssummaries"), "nodestatssummary", false, func() runtime.Object { return &v1beta2.NodeStatsSummary{} })
	return &summaries{r, o.Statistics, given{o.Store, o.Enforcers}, g}
}

// given says what enforcers have been given.
type given struct {
	store  *watchstore.Store
	access EnforcerAccess
}

// Concerns implements stats.Computed. Where anybody may act for any enforcer, so may they say
// anything: agents of ExternalNodes give a name there that is not their key.
func (g given) Concerns(key string, policy types.UID) bool {
	return g.access == AnyKey || g.store.Concerns(watchstore.NetworkPolicies, string(policy), key)
}

// Rules implements stats.Computed.
func (g given) Rules(policy types.UID) []string {
	object, _, err := g.store.Get(watchstore.NetworkPolicies, string(policy))
	p, ok := object.(*v1beta2.NetworkPolicy)
	if err != nil || !ok {
		return nil
	}
	var names []string
	for i := range p.Rules {
		if !slices.Contains(names, p.Rules[i].Name) {
			names = append(names, p.Rules[i].Name)
		}
	}
	return names
}

// Create implements rest.Creater. The answer is empty.
func (s *summaries) Create(ctx context.Context, object runtime.Object, _ rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	summary, ok := object.(*v1beta2.NodeStatsSummary)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the body is a %T, want a NodeStatsSummary", object))
	}
	if summary.Name == "" {
		return nil, apierrors.NewBadRequest("metadata.name is empty, want the key of the enforcer")
	}
	key, err := s.gate.reporter(ctx, s.Group, summary.Name)
	if err != nil {
		return nil, err
	}
	if !dryRun(options) {
		s.book.Add(key, summary, s.given)
	}
	return &v1beta2.NodeStatsSummary{}, nil
}

func dryRun(o *metav1.CreateOptions) bool { return o != nil && len(o.DryRun) > 0 }

var trafficColumns = []storage.Column{
	{Name: "Name", Type: "string", Format: "name", Description: "Name of the policy."},
	{Name: "Sessions", Type: "integer", Description: "Sessions that rules of the policy have matched."},
	{Name: "Packets", Type: "integer", Description: "Packets of these sessions."},
	{Name: "Bytes", Type: "integer", Description: "Bytes of these packets."},
	{Name: "Created At", Type: "date", Description: "When counting began."},
}

func trafficCells(m metav1.Object, t v1alpha1.TrafficStats) []any {
	return []any{m.GetName(), t.Sessions, t.Packets, t.Bytes, m.GetCreationTimestamp().UTC().Format(time.RFC3339)}
}

// newPolicyStatistics serves the counters of one kind of policy. object turns counters into what is
// served; table is left to the caller.
func newPolicyStatistics(
	b *stats.Book, kind v1beta2.NetworkPolicyType, r storage.Resource, list func() runtime.Object, object func(stats.Counters) runtime.Object,
) *storage.Readings {
	return &storage.Readings{
		Resource: r, Lists: list,
		Items: func(namespace string) []runtime.Object {
			var out []runtime.Object
			for _, c := range b.List(kind, namespace) {
				out = append(out, object(c))
			}
			return out
		},
		Object: func(namespace, name string) (runtime.Object, bool) {
			c, ok := b.Get(kind, namespace, name)
			return object(c), ok
		},
	}
}

func counterMeta(c stats.Counters) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name, CreationTimestamp: c.Since}
}

func newNetworkPolicyStats(b *stats.Book) rest.Storage {
	r := storage.New(statistic("networkpolicystats"), "networkpolicystats", true, func() runtime.Object { return &v1alpha1.NetworkPolicyStats{} })
	s := newPolicyStatistics(b, v1beta2.K8sNetworkPolicy, r, func() runtime.Object { return &v1alpha1.NetworkPolicyStatsList{} },
		func(c stats.Counters) runtime.Object {
			return &v1alpha1.NetworkPolicyStats{ObjectMeta: counterMeta(c), TrafficStats: c.Total}
		})
	s.Table = storage.Tabler(trafficColumns, func(o runtime.Object) []any {
		p := o.(*v1alpha1.NetworkPolicyStats)
		return trafficCells(p, p.TrafficStats)
	})
	return s
}

func newAntreaNetworkPolicyStats(b *stats.Book) rest.Storage {
	r := storage.New(statistic("antreanetworkpolicystats"), "antreanetworkpolicystats", true, func() runtime.Object { return &v1alpha1.AntreaNetworkPolicyStats{} })
	s := newPolicyStatistics(b, v1beta2.AntreaNetworkPolicy, r, func() runtime.Object { return &v1alpha1.AntreaNetworkPolicyStatsList{} },
		func(c stats.Counters) runtime.Object {
			return &v1alpha1.AntreaNetworkPolicyStats{ObjectMeta: counterMeta(c), TrafficStats: c.Total, RuleTrafficStats: c.Rules}
		})
	s.Table = storage.Tabler(trafficColumns, func(o runtime.Object) []any {
		p := o.(*v1alpha1.AntreaNetworkPolicyStats)
		return trafficCells(p, p.TrafficStats)
	})
	return s
}

func newAntreaClusterNetworkPolicyStats(b *stats.Book) rest.Storage {
	r := storage.New(statistic("antreaclusternetworkpolicystats"), "antreaclusternetworkpolicystats", false,
		func() runtime.Object { return &v1alpha1.AntreaClusterNetworkPolicyStats{} })
	s := newPolicyStatistics(b, v1beta2.AntreaClusterNetworkPolicy, r, func() runtime.Object { return &v1alpha1.AntreaClusterNetworkPolicyStatsList{} },
		func(c stats.Counters) runtime.Object {
			return &v1alpha1.AntreaClusterNetworkPolicyStats{ObjectMeta: counterMeta(c), TrafficStats: c.Total, RuleTrafficStats: c.Rules}
		})
	s.Table = storage.Tabler(trafficColumns, func(o runtime.Object) []any {
		p := o.(*v1alpha1.AntreaClusterNetworkPolicyStats)
		return trafficCells(p, p.TrafficStats)
	})
	return s
}

// shownPods is how many Pods of a multicast group a table names.
const shownPods = 3

func newMulticastGroups(b *stats.Book) rest.Storage {
	return &storage.Readings{
		Resource: storage.New(statistic("multicastgroups"), "multicastgroup", false, func() runtime.Object { return &v1alpha1.MulticastGroup{} }),
		Lists:    func() runtime.Object { return &v1alpha1.MulticastGroupList{} },
		Items: func(string) []runtime.Object {
			var out []runtime.Object
			for _, g := range b.MulticastGroups() {
				out = append(out, &g)
			}
			return out
		},
		Object: func(_, name string) (runtime.Object, bool) {
			for _, g := range b.MulticastGroups() {
				if g.Name == name {
					return &g, true
				}
			}
			return nil, false
		},
		Table: storage.Tabler([]storage.Column{
			{Name: "Group", Type: "string", Format: "name", Description: "Address of the multicast group."},
			{Name: "Pods", Type: "string", Description: "Pods that have joined."},
		}, func(o runtime.Object) []any {
			g := o.(*v1alpha1.MulticastGroup)
			return []any{g.Group, podList(g.Pods)}
		}),
	}
}

func podList(pods []v1alpha1.PodReference) string {
	if len(pods) == 0 {
		return "<none>"
	}
	var names []string
	for _, p := range pods[:min(len(pods), shownPods)] {
		names = append(names, p.Namespace+"/"+p.Name)
	}
	text := strings.Join(names, ",")
	if more := len(pods) - shownPods; more > 0 {
		text += fmt.Sprintf(" + %d more...", more)
	}
	return text
}
