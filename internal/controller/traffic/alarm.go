package traffic

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/control"
	"github.com/nephele-io/nephele/internal/flows/live"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

// interval is how often it is looked of which rules traffic differs.
const interval = 5 * time.Second

// Policies take what differs into the statuses of policies; a control.Controller does.
type Policies interface {
	Differ(map[types.UID]control.Differing)
}

// Alarm reports where traffic is not as rules say: to the policies, and by events and lines of
// the log when that begins and ends. It is a manager.Runnable.
type Alarm struct {
	traffic  *Store
	policies Policies
	events   events.EventRecorder
	clock    clock.WithTicker
	log      logr.Logger
	// reported is what was reported last, by policy; of what no policy decides the name is empty.
	reported map[analysis.TrafficCause]control.Differing
}

// NewAlarm returns an alarm that watches a Store.
func NewAlarm(t *Store, p Policies, e events.EventRecorder, clk clock.WithTicker, log logr.Logger) *Alarm {
	return &Alarm{traffic: t, policies: p, events: e, clock: clk, log: log, reported: map[analysis.TrafficCause]control.Differing{}}
}

// Start looks until ctx ends.
func (a *Alarm) Start(ctx context.Context) error {
	ticker := a.clock.NewTicker(interval)
	defer ticker.Stop()
	for {
		if fault := recovered.Do(a.look); fault != nil {
			a.log.Error(fault, "Looking at flows failed", "stack", recovered.StackOf(fault))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// look reports what has changed.
func (a *Alarm) look() {
	now := differing(a.traffic.memory.Disagreements(a.clock.Now()))
	ofPolicies := map[types.UID]control.Differing{}
	for about, d := range now {
		if about.UID != "" {
			ofPolicies[types.UID(about.UID)] = d
		}
		if _, known := a.reported[about]; !known {
			a.log.Info("Traffic is not as rules in force say", "how", d.Reason, "policy", policyName(about), "traffic", d.Message)
			a.event(about, corev1.EventTypeWarning, "TrafficDiffers", d.Message)
		}
	}
	for about := range a.reported {
		if _, still := now[about]; !still {
			a.log.Info("Traffic is as rules in force say again", "policy", policyName(about))
			a.event(about, corev1.EventTypeNormal, "TrafficAgrees", fmt.Sprintf("no traffic was seen for %s that is not as the policy says", live.Standing))
		}
	}
	a.reported = now
	a.policies.Differ(ofPolicies)
}

func policyName(about analysis.TrafficCause) string {
	if about.Name == "" {
		return ""
	}
	return about.Type + " " + types.NamespacedName{Namespace: about.Namespace, Name: about.Name}.String()
}

// differing says of each policy how traffic differs, by its name and UID. All that no policy
// decides is one.
func differing(all []live.Disagreement) map[analysis.TrafficCause]control.Differing {
	type sum struct {
		first live.Disagreement
		more  int
	}
	sums := map[analysis.TrafficCause]sum{}
	for _, d := range all {
		about := analysis.TrafficCause{Type: d.Cause.Type, Namespace: d.Cause.Namespace, Name: d.Cause.Name, UID: d.Cause.UID}
		s, known := sums[about]
		if s.more++; !known {
			s = sum{first: d}
		}
		sums[about] = s
	}
	out := make(map[analysis.TrafficCause]control.Differing, len(sums))
	for about, s := range sums {
		out[about] = control.Differing{Reason: s.first.Differs, Message: differingMessage(&s.first, s.more)}
	}
	return out
}

// differingMessage is the text for every reader of the policy. A reader may lack the right to see
// the names of both ends, so it has their addresses.
func differingMessage(d *live.Disagreement, more int) string {
	verb, what, by := "drops", "connections pass that", "what is in force"
	if d.Differs == "Cut" {
		verb, what = "lets pass", "connections are dropped that"
	}
	switch {
	case d.Cause.Cause == "Isolation":
		verb, by = "drops because it isolates", "the policy"
	case d.Cause.Rule != "":
		by = fmt.Sprintf("rule %q", d.Cause.Rule)
	case d.Cause.Cause == "Policy" && d.Cause.Index >= 0:
		by = fmt.Sprintf("rule %d", d.Cause.Index)
	case d.Cause.Cause == "Policy":
		by = "the policy"
	}
	to := d.Server.String()
	if d.Port != 0 {
		to = netip.AddrPortFrom(d.Server, d.Port).String()
	}
	text := fmt.Sprintf("since %s %s %s %s, the first from %s to %s (%s), seen by %s", d.First.UTC().Format(time.RFC3339), what, by, verb, d.Client, to,
		live.ProtocolName(d.Protocol), d.Enforcer)
	if more > 0 {
		text += fmt.Sprintf("; and %d more rules or places", more)
	}
	return text
}

// event records an event on a policy.
func (a *Alarm) event(about analysis.TrafficCause, kind, reason, text string) {
	gvk, known := policyKinds[v1beta2.NetworkPolicyType(about.Type)]
	if !known || about.Name == "" {
		return
	}
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: about.Namespace, Name: about.Name, UID: types.UID(about.UID)}}
	object.APIVersion, object.Kind = gvk.APIVersion, gvk.Kind
	a.events.Eventf(object, nil, kind, reason, "WatchTraffic", "%s", text)
}

// policyKinds are the kinds of policies by the names that enforcers know them by.
var policyKinds = map[v1beta2.NetworkPolicyType]metav1.TypeMeta{
	v1beta2.K8sNetworkPolicy:           {APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"},
	v1beta2.AntreaNetworkPolicy:        {APIVersion: v1beta1.GroupVersion().String(), Kind: "NetworkPolicy"},
	v1beta2.AntreaClusterNetworkPolicy: {APIVersion: v1beta1.GroupVersion().String(), Kind: "ClusterNetworkPolicy"},
	v1beta2.AdminNetworkPolicy:         {APIVersion: "policy.networking.k8s.io/v1alpha1", Kind: "AdminNetworkPolicy"},
	v1beta2.BaselineAdminNetworkPolicy: {APIVersion: "policy.networking.k8s.io/v1alpha1", Kind: "BaselineAdminNetworkPolicy"},
	v1beta2.ClusterNetworkPolicy:       {APIVersion: "policy.networking.k8s.io/v1alpha2", Kind: "ClusterNetworkPolicy"},
}
