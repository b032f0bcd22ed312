package apiserver_test

import (
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	statsv1alpha1 "github.com/nephele-io/nephele/api/stats/v1alpha1"
	"github.com/nephele-io/nephele/internal/apiserver/stats"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
)

// What agents post, written down field by field from the description of the API: the wire here is
// made by nobody else's encoder.

// message is a protobuf message of the given fields.
func message(fields ...[]byte) []byte {
	var out []byte
	for _, f := range fields {
		out = append(out, f...)
	}
	return out
}

// number is a field that holds a number, text one that holds a text or another message.
func number(tag int, n uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(nil, uint64(tag)<<3), n)
}

func text[T string | []byte](tag int, content T) []byte {
	head := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(tag)<<3|2), uint64(len(content)))
	return append(head, content...)
}

// posted is a message as the body of a request.
func posted(kind string, content []byte) []byte {
	typeMeta := message(text(1, "controlplane.antrea.io/v1beta2"), text(2, kind))
	return append([]byte("k8s\x00"), message(text(1, typeMeta), text(2, content), text(3, ""), text(4, ""))...)
}

func TestStatusFieldByField(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill()
	bodies := map[string][]byte{
		runtime.ContentTypeProtobuf: posted("NetworkPolicyStatus", message(
			text(1, message(text(1, "u1"), text(3, ""))),
			text(2, message(text(1, "a"), number(2, 7), number(3, 1), text(4, "the reason"))),
		)),
		runtime.ContentTypeJSON: []byte(`{"kind": "NetworkPolicyStatus", "apiVersion": "controlplane.antrea.io/v1beta2", "metadata": {"name": "u1", "creationTimestamp": null},
			"nodes": [{"nodeName": "a", "generation": 7, "realizationFailure": true, "message": "the reason"}]}`),
	}
	want := []v1beta2.NetworkPolicyNodeStatus{{NodeName: "a", Generation: 7, RealizationFailure: true, Message: "the reason"}}
	for contentType, body := range bodies {
		err := w.client(t, "agent", contentType).Post().Resource("networkpolicies").Name("u1").SubResource("status").
			SetHeader("Content-Type", contentType).Body(body).Do(t.Context()).Error()
		if err != nil {
			t.Fatalf("%s: %v", contentType, err)
		}
		got := w.reports.all()
		if diff := cmp.Diff(want, got[len(got)-1].Nodes); diff != "" || got[len(got)-1].Name != "u1" {
			t.Errorf("%s: %s", contentType, diff)
		}
	}
}

// trafficOf is a TrafficStats.
func trafficOf(packets, bytes, sessions uint64) []byte {
	return message(number(1, packets), number(2, bytes), number(3, sessions))
}

func TestStatisticsFieldByField(t *testing.T) {
	t.Parallel()
	w, _ := newFullWorld(t)
	kinds := map[string]v1beta2.NetworkPolicyType{"k": v1beta2.K8sNetworkPolicy, "c": v1beta2.AntreaClusterNetworkPolicy, "a": v1beta2.AntreaNetworkPolicy}
	var changes watchstore.Changes
	for uid, kind := range kinds {
		namespace := "n"
		if kind == v1beta2.AntreaClusterNetworkPolicy {
			namespace = ""
		}
		w.book.Begin(stats.Policy{Kind: kind, Namespace: namespace, Name: "policy-" + uid, UID: types.UID(uid)})
		c := policyChange(uid, 1, "n1")
		other := c.Policy.Rules[0]
		c.Policy.Rules[0].Name, other.Name = "r1", "r2"
		c.Policy.Rules = append(c.Policy.Rules, other)
		changes.Policies = append(changes.Policies, c)
	}
	w.store.Publish(changes)
	reference := func(kind v1beta2.NetworkPolicyType, namespace, uid string) []byte {
		return message(text(1, string(kind)), text(2, namespace), text(3, "policy-"+uid), text(4, uid))
	}
	rules := message(
		text(3, message(text(1, "r1"), text(2, trafficOf(1, 100, 10)))),
		text(3, message(text(1, "r2"), text(2, trafficOf(2, 200, 20)))),
	)
	none := text(2, trafficOf(0, 0, 0))
	bodies := map[string][]byte{
		runtime.ContentTypeProtobuf: posted("NodeStatsSummary", message(
			text(1, message(text(1, "n1"))),
			text(2, message(text(1, reference(v1beta2.K8sNetworkPolicy, "n", "k")), text(2, trafficOf(3, 300, 30)))),
			text(3, message(text(1, reference(v1beta2.AntreaClusterNetworkPolicy, "", "c")), none, rules)),
			text(4, message(text(1, reference(v1beta2.AntreaNetworkPolicy, "n", "a")), none, rules)),
			text(5, message(text(1, "225.1.2.3"), text(2, message(text(1, "p1"), text(2, "n"))), text(2, message(text(1, "p2"), text(2, "n"))))),
		)),
		runtime.ContentTypeJSON: []byte(`{"kind": "NodeStatsSummary", "apiVersion": "controlplane.antrea.io/v1beta2", "metadata": {"name": "n1", "creationTimestamp": null},
			"networkPolicies": [{"networkPolicy": {"type": "K8sNetworkPolicy", "namespace": "n", "name": "policy-k", "uid": "k"}, "trafficStats": {"packets": 3, "bytes": 300, "sessions": 30}}],
			"antreaClusterNetworkPolicies": [{"networkPolicy": {"type": "AntreaClusterNetworkPolicy", "name": "policy-c", "uid": "c"}, "trafficStats": {},
				"ruleTrafficStats": [{"name": "r1", "trafficStats": {"packets": 1, "bytes": 100, "sessions": 10}}, {"name": "r2", "trafficStats": {"packets": 2, "bytes": 200, "sessions": 20}}]}],
			"antreaNetworkPolicies": [{"networkPolicy": {"type": "AntreaNetworkPolicy", "namespace": "n", "name": "policy-a", "uid": "a"}, "trafficStats": {},
				"ruleTrafficStats": [{"name": "r1", "trafficStats": {"packets": 1, "bytes": 100, "sessions": 10}}, {"name": "r2", "trafficStats": {"packets": 2, "bytes": 200, "sessions": 20}}]}],
			"multicast": [{"group": "225.1.2.3", "pods": [{"name": "p1", "namespace": "n"}, {"name": "p2", "namespace": "n"}]}]}`),
	}
	c := w.statsClient(t, "agent", "")
	times := int64(0)
	for contentType, body := range bodies {
		err := w.client(t, "agent", contentType).Post().Resource("nodestatssummaries").
			SetHeader("Content-Type", contentType).Body(body).Do(t.Context()).Error()
		if err != nil {
			t.Fatalf("%s: %v", contentType, err)
		}
		times++
		traffic := func(packets int64) statsv1alpha1.TrafficStats {
			return statsv1alpha1.TrafficStats{Packets: times * packets, Bytes: times * packets * 100, Sessions: times * packets * 10}
		}
		wantRules := []statsv1alpha1.RuleTrafficStats{{Name: "r1", TrafficStats: traffic(1)}, {Name: "r2", TrafficStats: traffic(2)}}
		var k statsv1alpha1.NetworkPolicyStats
		var cluster statsv1alpha1.AntreaClusterNetworkPolicyStats
		var a statsv1alpha1.AntreaNetworkPolicyStats
		var groups statsv1alpha1.MulticastGroupList
		for what, err := range map[string]error{
			"Kubernetes":             c.Get().Namespace("n").Resource("networkpolicystats").Name("policy-k").Do(t.Context()).Into(&k),
			"Antrea, in the cluster": c.Get().Resource("antreaclusternetworkpolicystats").Name("policy-c").Do(t.Context()).Into(&cluster),
			"Antrea":                 c.Get().Namespace("n").Resource("antreanetworkpolicystats").Name("policy-a").Do(t.Context()).Into(&a),
			"multicast":              c.Get().Resource("multicastgroups").Do(t.Context()).Into(&groups),
		} {
			if err != nil {
				t.Errorf("%s, %s: %v", contentType, what, err)
			}
		}
		if k.TrafficStats != traffic(3) || cluster.TrafficStats != traffic(3) || a.TrafficStats != traffic(3) {
			t.Errorf("%s: %+v %+v %+v, want %+v each", contentType, k.TrafficStats, cluster.TrafficStats, a.TrafficStats, traffic(3))
		}
		if diff := cmp.Diff(wantRules, cluster.RuleTrafficStats) + cmp.Diff(wantRules, a.RuleTrafficStats); diff != "" {
			t.Errorf("%s: %s", contentType, diff)
		}
		want := []statsv1alpha1.PodReference{{Name: "p1", Namespace: "n"}, {Name: "p2", Namespace: "n"}}
		if len(groups.Items) != 1 || groups.Items[0].Group != "225.1.2.3" || cmp.Diff(want, groups.Items[0].Pods) != "" {
			t.Errorf("%s: %+v", contentType, groups.Items)
		}
	}
}
