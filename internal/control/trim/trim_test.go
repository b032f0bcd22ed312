package trim

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/convert"
)

func untrimmedPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, Labels: map[string]string{"app": "web", "tier": "front"}, Annotations: map[string]string{"a": "b"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}},
		},
		Spec: corev1.PodSpec{
			NodeName: "node-1", ServiceAccountName: "robot", HostNetwork: true, Volumes: []corev1.Volume{{Name: "v"}},
			Containers: []corev1.Container{
				{Name: "plain", Image: "image"},
				{Name: "ports", Image: "image", Ports: []corev1.ContainerPort{{ContainerPort: 1}, {Name: "http", ContainerPort: 80}}},
			},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodFailed, PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady}},
		},
	}
}

// TestTrimKeepsWhatCounts: what is left of a Pod converts to the same entity.
func TestTrimKeepsWhatCounts(t *testing.T) {
	trimmer := NewTrimmer()
	left := trimPod(t, trimmer, untrimmedPod("p"))
	want, _ := convert.Pod(untrimmedPod("p"))
	if want.Host != "node-1" || len(want.Addresses) != 2 || len(want.Ports) != 1 || !want.HostNetwork || !want.Terminated {
		t.Fatalf("the Pod says %+v", want)
	}
	got, errs := left.Entity()
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b fmt.Stringer) bool { return a.String() == b.String() })); diff != "" || errs != nil {
		t.Fatalf("%v\n%s", errs, diff)
	}
	if again, err := trimmer.Trim(left); err != nil || again != any(left) {
		t.Fatalf("trimmed again it is %v, %v", again, err)
	}
	account := &cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}}}
	if _, err := trimmer.Trim(account); err != nil || len(account.ManagedFields) != 1 {
		t.Errorf("an account does not show which client has set its annotations: %+v, %v", account, err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{}}}, Status: corev1.NodeStatus{Images: []corev1.ContainerImage{{}}}}
	if _, err := trimmer.Trim(node); err != nil || node.ManagedFields != nil || node.Status.Images != nil {
		t.Fatalf("not trimmed: %+v, %v", node, err)
	}
}

func trimPod(t *testing.T, trimmer *Trimmer, p *corev1.Pod) *convert.TrimmedPod {
	t.Helper()
	out, err := trimmer.Trim(p)
	if err != nil {
		t.Fatal(err)
	}
	return out.(*convert.TrimmedPod)
}

func TestTrimSharesLabels(t *testing.T) {
	trimmer := NewTrimmer()
	same := func(a, b map[string]string) bool { return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer() }
	a, b, c := untrimmedPod("a"), untrimmedPod("b"), untrimmedPod("c")
	c.Labels["tier"] = "back"
	p := &networkingv1.NetworkPolicy{Spec: networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"tier": "front", "app": "web"}},
		Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{
			PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "back", "app": "web"}},
		}}}},
	}}
	x, y, z := trimPod(t, trimmer, a), trimPod(t, trimmer, b), trimPod(t, trimmer, c)
	if _, err := trimmer.Trim(p); err != nil {
		t.Fatal(err)
	}
	if !same(x.Labels, y.Labels) || !same(x.Labels, p.Spec.PodSelector.MatchLabels) || !same(z.Labels, p.Spec.Ingress[0].From[0].PodSelector.MatchLabels) {
		t.Fatal("equal labels are not the same map")
	}
	if same(x.Labels, z.Labels) {
		t.Fatal("different labels are the same map")
	}
	for i := range maxShared + 10 {
		a.Labels = map[string]string{"n": fmt.Sprint(i)}
		if left := trimPod(t, trimmer, a); left.Labels["n"] != fmt.Sprint(i) {
			t.Fatal(left.Labels)
		}
	}
	if len(trimmer.labels) > maxShared {
		t.Fatalf("%d contents are remembered", len(trimmer.labels))
	}
}

// TestTrimForgetsWhatIsLarge: labels and texts that are long are kept by their objects alone, and
// go with them, however many come and go.
func TestTrimForgetsWhatIsLarge(t *testing.T) {
	trimmer := NewTrimmer()
	for i := range 200 {
		p := untrimmedPod("a")
		p.Namespace = strings.Repeat("n", maxTextBytes) + fmt.Sprint(i)
		for n := range 100 {
			p.Labels[fmt.Sprintf("label-%d-%d", i, n)] = strings.Repeat("v", 63)
		}
		if left := trimPod(t, trimmer, p); len(left.Labels) != len(p.Labels) || left.Namespace != p.Namespace {
			t.Fatal(left)
		}
	}
	size := 0
	for content := range trimmer.labels {
		size += len(content)
	}
	for text := range trimmer.texts {
		size += len(text)
	}
	if size > 1<<10 {
		t.Errorf("%d bytes of 200 Pods that are gone are remembered", size)
	}
}

// TestTrimSharesSpecs: Kubernetes NetworkPolicies keep what they say, equal ones in the same parts,
// and no more specs are remembered than may be, none of them large.
func TestTrimSharesSpecs(t *testing.T) {
	trimmer := NewTrimmer()
	trim := func(name string, spec networkingv1.NetworkPolicySpec) *networkingv1.NetworkPolicy {
		t.Helper()
		p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name + "-uid"), ResourceVersion: "1"}, Spec: spec}
		before := p.DeepCopy()
		if _, err := trimmer.Trim(p); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, p); diff != "" {
			t.Fatalf("%s says something else:\n%s", name, diff)
		}
		return p
	}
	spec := func(port int32) networkingv1.NetworkPolicySpec {
		at := intstr.FromInt32(port)
		return networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{
				From:  []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}}},
				Ports: []networkingv1.NetworkPolicyPort{{Port: &at}},
			}},
		}
	}
	a, b, c := trim("a", spec(80)), trim("b", spec(80)), trim("c", spec(81))
	if &a.Spec.Ingress[0] != &b.Spec.Ingress[0] || &a.Spec.PolicyTypes[0] != &b.Spec.PolicyTypes[0] {
		t.Error("equal specs have parts of their own")
	}
	if &a.Spec.Ingress[0] == &c.Spec.Ingress[0] {
		t.Error("different specs have the same parts")
	}
	large := spec(80)
	for i := range maxSpecBytes {
		large.PodSelector.MatchLabels[fmt.Sprint(i)] = ""
	}
	seen := len(trimmer.specs)
	if trim("large", large); len(trimmer.specs) != seen {
		t.Error("a large spec is remembered")
	}
	for i := range int32(maxSpecs + 10) {
		trim("many", spec(i))
	}
	if len(trimmer.specs) > maxSpecs {
		t.Errorf("%d specs are remembered", len(trimmer.specs))
	}
}

// TestTrimKeepsNamespaces: a Namespace keeps what it says, in texts that it shares with others or
// that are parts of its own.
func TestTrimKeepsNamespaces(t *testing.T) {
	trimmer := NewTrimmer()
	var keys []string
	for _, name := range []string{"red", "blue"} {
		n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u", ResourceVersion: "7", Labels: map[string]string{
			strings.Clone(corev1.LabelMetadataName): strings.Clone(name), strings.Clone("team"): "x",
		}}}
		before := n.DeepCopy()
		if _, err := trimmer.Trim(n); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, n); diff != "" {
			t.Errorf("it says something else:\n%s", diff)
		}
		if unsafe.StringData(n.Labels[corev1.LabelMetadataName]) != unsafe.StringData(n.Name) {
			t.Error("its name is there twice")
		}
		keys = slices.AppendSeq(keys, maps.Keys(n.Labels))
	}
	slices.Sort(keys)
	for i := 0; i < len(keys); i += 2 {
		if keys[i] != keys[i+1] || unsafe.StringData(keys[i]) != unsafe.StringData(keys[i+1]) {
			t.Errorf("%q and %q are not one text", keys[i], keys[i+1])
		}
	}
}

// TestTrimSharesTexts: objects of virtual machines keep what they say, and use the texts of others.
func TestTrimSharesTexts(t *testing.T) {
	made := func(id string) (*cloudv1.VirtualMachine, *v1alpha2.ExternalEntity) {
		own := func(s string) string { return string([]byte(s)) } // as a decoder makes texts
		labels := map[string]string{own("vpc"): own("vpc-1"), own("uid"): own(id)}
		vm := &cloudv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: own("ns"), Name: id, Labels: labels, Annotations: map[string]string{own("account"): own("ns/a")}}}
		vm.Spec.Tags = map[string]string{own("team"): own("red")}
		vm.Status = cloudv1.VirtualMachineStatus{Provider: cloudv1.CloudProvider(own("AWS")), Region: own("r"), CloudId: own(id), PolicySummary: own("1/2"),
			Tags: map[string]string{own("env"): own("prod")}, Conditions: []metav1.Condition{{Type: own("Realized"), Message: own("no")}},
			Policies:          []cloudv1.AppliedPolicy{{Name: own("p"), UID: types.UID(own("u")), Phase: cloudv1.PolicyPhase(own("Realized"))}},
			NetworkInterfaces: []cloudv1.AttachedInterface{{SecurityGroupIds: []string{own("sg-1")}, IPs: []cloudv1.IPAddress{{Address: own("10.0.0.1")}}}}}
		entity := &v1alpha2.ExternalEntity{ObjectMeta: *vm.ObjectMeta.DeepCopy()}
		entity.Spec.Endpoints = []v1alpha2.Endpoint{{IP: own("10.0.0.1"), Name: own("e")}}
		return vm, entity
	}
	trimmer := NewTrimmer()
	texts := map[string]*byte{}
	for _, id := range []string{"i-1", "i-2"} {
		vm, entity := made(id)
		for _, o := range []client.Object{vm, entity} {
			before := o.DeepCopyObject()
			if _, err := trimmer.Trim(o); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, o); diff != "" {
				t.Errorf("it says something else:\n%s", diff)
			}
		}
		n, st := &vm.Status.NetworkInterfaces[0], &vm.Status
		all := []string{vm.Namespace, string(st.Provider), st.Region, st.PolicySummary, st.Conditions[0].Type, st.Conditions[0].Message, st.Policies[0].Name,
			string(st.Policies[0].UID), string(st.Policies[0].Phase), n.SecurityGroupIds[0], n.IPs[0].Address, entity.Spec.Endpoints[0].IP, st.CloudId}
		for _, m := range []map[string]string{vm.Labels, vm.Annotations, vm.Spec.Tags, st.Tags, entity.Labels} {
			for k, v := range m {
				all = append(all, k, v)
			}
		}
		for _, s := range all {
			if one := texts[s]; one != nil && one != unsafe.StringData(s) {
				t.Errorf("%q is there twice", s)
			}
			texts[s] = unsafe.StringData(s)
		}
	}
}
