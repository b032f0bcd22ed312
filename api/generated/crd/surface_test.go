package crd_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	antreav1alpha1 "github.com/nephele-io/nephele/api/antrea/v1alpha1"
	antreav1alpha2 "github.com/nephele-io/nephele/api/antrea/v1alpha2"
	antreav1beta1 "github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/kinds"
)

// surface is what a user of kubectl sees of a kind.
type surface struct {
	Version, Scope, Kind string
	Short                []string
	Columns              []string // the columns of the default output
	HasStatus            bool
}

func TestSurface(t *testing.T) {
	policy := []string{"Tier", "Priority", "Phase", "Workloads", "Age", "Message"}
	revision := []string{"Kind", "Object", "Change", "User", "Phase", "When"}
	want := map[string]surface{
		"networkpolicies.crd.antrea.io":                         {"v1beta1", "Namespaced", "NetworkPolicy", []string{"annp", "anp"}, policy, true},
		"clusternetworkpolicies.crd.antrea.io":                  {"v1beta1", "Cluster", "ClusterNetworkPolicy", []string{"acnp"}, policy, true},
		"antreacontrollerinfos.crd.antrea.io":                   {"v1beta1", "Cluster", "AntreaControllerInfo", []string{"aci"}, []string{"Healthy", "Last Heartbeat"}, false},
		"antreaagentinfos.crd.antrea.io":                        {"v1beta1", "Cluster", "AntreaAgentInfo", []string{"aai"}, []string{"Healthy", "Last Heartbeat"}, false},
		"packetcaptures.crd.antrea.io":                          {"v1alpha1", "Cluster", "PacketCapture", []string{"pcap"}, []string{"Captured-Packets", "Started", "Complete", "Age"}, true},
		"nodelatencymonitors.crd.antrea.io":                     {"v1alpha1", "Cluster", "NodeLatencyMonitor", []string{"nlm"}, []string{"PingIntervalSeconds", "Age"}, false},
		"traceflows.crd.antrea.io":                              {"v1beta1", "Cluster", "Traceflow", []string{"tf"}, []string{"Phase", "Age"}, true},
		"egresses.crd.antrea.io":                                {"v1beta1", "Cluster", "Egress", []string{"eg"}, []string{"EgressIP", "Age", "Node"}, true},
		"externalippools.crd.antrea.io":                         {"v1beta1", "Cluster", "ExternalIPPool", []string{"eip"}, []string{"Total", "Used", "Age"}, true},
		"tiers.crd.antrea.io":                                   {"v1beta1", "Cluster", "Tier", []string{"tr"}, []string{"Priority", "Age"}, false},
		"clustergroups.crd.antrea.io":                           {"v1beta1", "Cluster", "ClusterGroup", []string{"cg"}, nil, true},
		"groups.crd.antrea.io":                                  {"v1beta1", "Namespaced", "Group", []string{"grp"}, nil, true},
		"externalentities.crd.antrea.io":                        {"v1alpha2", "Namespaced", "ExternalEntity", []string{"ee"}, []string{"Address", "Address-2", "Enforcer", "Age"}, false},
		"externalnodes.crd.antrea.io":                           {"v1alpha1", "Namespaced", "ExternalNode", []string{"en"}, nil, false},
		"clusternetworkpolicies.policy.networking.k8s.io":       {"v1alpha2", "Cluster", "ClusterNetworkPolicy", []string{"cnp"}, []string{"Tier", "Priority", "Age"}, true},
		"adminnetworkpolicies.policy.networking.k8s.io":         {"v1alpha1", "Cluster", "AdminNetworkPolicy", []string{"anp"}, []string{"Priority", "Age"}, true},
		"baselineadminnetworkpolicies.policy.networking.k8s.io": {"v1alpha1", "Cluster", "BaselineAdminNetworkPolicy", []string{"banp"}, nil, true},
		"cloudprovideraccounts.crd.cloud.antrea.io":             {"v1alpha1", "Namespaced", "CloudProviderAccount", []string{"cpa"}, []string{"Ready", "Reason", "Break-Glass", "Braked", "Sole-Writer", "Last-Sync", "Age"}, true},
		"cloudentityselectors.crd.cloud.antrea.io":              {"v1alpha1", "Namespaced", "CloudEntitySelector", []string{"ces"}, []string{"Account", "Account-Namespace", "Mode", "VMs", "Ready", "Reason", "Break-Glass", "Age"}, true},
		"virtualmachines.crd.cloud.antrea.io":                   {"v1alpha1", "Namespaced", "VirtualMachine", []string{"vm"}, []string{"VM", "Addresses", "State", "Mode", "Policies", "Age"}, true},
		"cloudnativeservices.crd.cloud.antrea.io":               {"v1alpha1", "Namespaced", "CloudNativeService", []string{"cns"}, []string{"Service", "Kind", "Addresses", "Port", "Policies", "Age"}, true},
		"networkinterfaces.crd.cloud.antrea.io":                 {"v1alpha1", "Namespaced", "NetworkInterface", []string{"nic"}, []string{"Interface", "Addresses", "Attached-To", "Settable", "Policies", "Age"}, true},
		"clusterpolicyrevisions.nephele.io":                     {"v1alpha1", "Cluster", "ClusterPolicyRevision", []string{"cprev"}, revision, true},
		"policyrevisions.nephele.io":                            {"v1alpha1", "Namespaced", "PolicyRevision", []string{"prev"}, revision, true},
		"clusters.set.nephele.io":                               {"v1alpha1", "Cluster", "Cluster", nil, []string{"Connected", "In-Sync", "Version", "Entities", "Policies", "Refused", "Age"}, true},
		"memberships.set.nephele.io":                            {"v1alpha1", "Cluster", "Membership", nil, []string{"Cluster", "Joined", "Connected", "Policies", "Age"}, true},
		"remotegroups.set.nephele.io":                           {"v1alpha1", "Cluster", "RemoteGroup", nil, []string{"Members", "Age"}, false},
		"clusterrecords.set.nephele.io":                         {"v1alpha1", "Cluster", "ClusterRecord", nil, []string{"Entities", "Age"}, false},
		"vpcs.crd.cloud.antrea.io":                              {"v1alpha1", "Namespaced", "Vpc", []string{"vpc"}, []string{"Cloud Provider", "Region", "Managed", "Age"}, true},
	}
	got := map[string]surface{}
	for _, d := range definitions(t) {
		v := d.Spec.Versions[0]
		if !v.Served || !v.Storage {
			t.Errorf("%s: want the first version served and stored", d.Name)
		}
		var former []string
		for _, o := range d.Spec.Versions[1:] {
			former = append(former, o.Name)
			if !o.Served || o.Storage || !o.Deprecated {
				t.Errorf("%s: want %s served, and nothing stored in it", d.Name, o.Name)
			}
		}
		if want := kinds.FormerVersions(d.Spec.Group, d.Spec.Names.Kind); !slices.Equal(former, want) {
			t.Errorf("%s: former versions %v, want %v", d.Name, former, want)
		}
		s := surface{v.Name, string(d.Spec.Scope), d.Spec.Names.Kind, d.Spec.Names.ShortNames, nil, v.Subresources != nil && v.Subresources.Status != nil}
		for _, c := range v.AdditionalPrinterColumns {
			if c.Priority == 0 {
				s.Columns = append(s.Columns, c.Name)
			}
		}
		// kube-apiserver adds the age where there are no columns.
		if len(s.Columns) == 1 && s.Columns[0] == "Age" && v.AdditionalPrinterColumns[0].JSONPath == ".metadata.creationTimestamp" {
			s.Columns = nil
		}
		got[d.Name] = s
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("surface (-want +got):\n%s", diff)
	}
}

// Every field of the Go types is in the schemas, and what is stored reads back as what was written.
func TestTypesMatchSchemas(t *testing.T) {
	s := newServer(t)
	for _, obj := range fullObjects() {
		kind := obj.GetObjectKind().GroupVersionKind().Kind
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		stored, err := s.create(&unstructured.Unstructured{Object: content})
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		back := obj.DeepCopyObject()
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(stored.Object, back, true); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		if diff := cmp.Diff(obj, back); diff != "" {
			t.Errorf("%s changes when stored (-written +read):\n%s", kind, diff)
		}
	}
}

// The zero status that a client writes with every object is accepted.
func TestZeroStatusIsAccepted(t *testing.T) {
	s := newServer(t)
	for _, obj := range []runtime.Object{
		&cloudv1alpha1.VirtualMachine{TypeMeta: typeMeta(cloudVersion, "VirtualMachine")},
		&cloudv1alpha1.Vpc{TypeMeta: typeMeta(cloudVersion, "Vpc")},
		&antreav1beta1.Group{TypeMeta: typeMeta(policyVersion, "Group")},
		&antreav1alpha2.ExternalEntity{TypeMeta: typeMeta("crd.antrea.io/v1alpha2", "ExternalEntity")},
	} {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.create(&unstructured.Unstructured{Object: content}); err != nil {
			t.Errorf("%T: %v", obj, err)
		}
	}
}

func TestSamplesAreAccepted(t *testing.T) {
	s := newServer(t)
	files, err := filepath.Glob("../../../config/samples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("samples: %v, %v", files, err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, obj := range parse(t, string(content)) {
			group := obj.GroupVersionKind().Group
			if !strings.HasSuffix(group, "antrea.io") && group != "policy.networking.k8s.io" {
				continue
			}
			seen[obj.GetKind()] = true
			if _, err := s.create(obj); err != nil {
				t.Errorf("%s: %s %s: %v", file, obj.GetKind(), obj.GetName(), err)
			}
		}
	}
	for _, kind := range []string{"CloudProviderAccount", "CloudEntitySelector", "NetworkPolicy", "ClusterNetworkPolicy", "Tier", "Group", "ClusterGroup",
		"AdminNetworkPolicy", "BaselineAdminNetworkPolicy"} {
		if !seen[kind] {
			t.Errorf("no sample of a %s", kind)
		}
	}
}

func typeMeta(apiVersion, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}
}

// fullObjects returns an object of every kind, with as many fields set as the rules permit together.
func fullObjects() []runtime.Object {
	meta := metav1.ObjectMeta{Name: "a", Namespace: "ns"}
	now := metav1.Unix(1700000000, 0)
	ready := metav1.Condition{Type: "Ready", Status: "True", Reason: "OK", LastTransitionTime: now, ObservedGeneration: 2}
	sel := &metav1.LabelSelector{
		MatchLabels:      map[string]string{"a": "b"},
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "c", Operator: "In", Values: []string{"d"}}},
	}
	ref := &antreav1beta1.NamespacedName{Name: "s", Namespace: "ns"}
	tcp, http := antreav1beta1.ProtocolTCP, intstr.FromInt32(80)
	n := func(i int32) *int32 { return &i }
	status := antreav1beta1.NetworkPolicyStatus{
		Phase: antreav1beta1.NetworkPolicyFailed, ObservedGeneration: 3, CurrentNodesRealized: 1, DesiredNodesRealized: 2,
		Conditions: []antreav1beta1.NetworkPolicyCondition{{Type: "Realizable", Status: "True", LastTransitionTime: now, Reason: "r", Message: "m"}},
	}
	ingress := antreav1beta1.Rule{
		Action: "Allow", Name: "in", EnableLogging: true, LogLabel: "l",
		Ports:       []antreav1beta1.NetworkPolicyPort{{Protocol: &tcp, Port: &http, EndPort: n(90), SourcePort: n(1), SourceEndPort: n(2)}},
		Protocols:   []antreav1beta1.NetworkPolicyProtocol{{ICMP: &antreav1beta1.ICMPProtocol{ICMPType: n(8), ICMPCode: n(0)}}, {IGMP: &antreav1beta1.IGMPProtocol{IGMPType: n(17), GroupAddress: "224.0.0.1"}}},
		L7Protocols: []antreav1beta1.L7Protocol{{HTTP: &antreav1beta1.HTTPProtocol{Host: "h", Method: "GET", Path: "/"}}, {TLS: &antreav1beta1.TLSProtocol{SNI: "s"}}},
		From: []antreav1beta1.NetworkPolicyPeer{
			{PodSelector: sel, NamespaceSelector: sel, Scope: "ClusterSet"}, {ExternalEntitySelector: sel, NamespaceSelector: sel},
			{IPBlock: &antreav1beta1.IPBlock{CIDR: "10.0.0.0/8", Except: []string{"10.1.0.0/16"}}}, {Group: "g"}, {NodeSelector: sel},
		},
	}
	egress := antreav1beta1.Rule{Action: "Drop", To: []antreav1beta1.NetworkPolicyPeer{{FQDN: "*.example.com"}}}
	toServices := antreav1beta1.Rule{Action: "Drop", ToServices: []antreav1beta1.PeerService{{Name: "s", Namespace: "ns", Scope: "Cluster"}}}
	spec := antreav1beta1.NetworkPolicySpec{
		Tier: "application", Priority: 1.5, AppliedTo: []antreav1beta1.AppliedTo{{PodSelector: sel}, {ExternalEntitySelector: sel}, {Group: "g"}},
		Ingress: []antreav1beta1.Rule{ingress}, Egress: []antreav1beta1.Rule{egress, toServices},
	}
	clusterSpec := *spec.DeepCopy()
	clusterSpec.AppliedTo = append(clusterSpec.AppliedTo, antreav1beta1.AppliedTo{NamespaceSelector: sel, ExternalEntitySelector: sel},
		antreav1beta1.AppliedTo{NodeSelector: sel}, antreav1beta1.AppliedTo{ServiceAccount: ref})
	clusterSpec.Ingress[0].From = append(clusterSpec.Ingress[0].From, antreav1beta1.NetworkPolicyPeer{ServiceAccount: ref},
		antreav1beta1.NetworkPolicyPeer{Namespaces: &antreav1beta1.PeerNamespaces{Match: "Self"}},
		antreav1beta1.NetworkPolicyPeer{Namespaces: &antreav1beta1.PeerNamespaces{SameLabels: []string{"k"}}, PodSelector: sel})
	groupStatus := antreav1beta1.GroupStatus{Conditions: []antreav1beta1.GroupCondition{{Type: "GroupMembersComputed", Status: "True", LastTransitionTime: now}}}

	return append(cloudObjects(meta, now, ready),
		&antreav1beta1.NetworkPolicy{TypeMeta: typeMeta(policyVersion, "NetworkPolicy"), ObjectMeta: meta, Spec: spec, Status: status},
		&antreav1beta1.ClusterNetworkPolicy{TypeMeta: typeMeta(policyVersion, "ClusterNetworkPolicy"), ObjectMeta: meta, Spec: clusterSpec, Status: status},
		&antreav1beta1.Tier{TypeMeta: typeMeta(policyVersion, "Tier"), ObjectMeta: meta, Spec: antreav1beta1.TierSpec{Priority: 10, Description: "d"}},
		&antreav1beta1.Group{TypeMeta: typeMeta(policyVersion, "Group"), ObjectMeta: meta, Spec: antreav1beta1.GroupSpec{NamespaceSelector: sel, ExternalEntitySelector: sel}, Status: groupStatus},
		&antreav1beta1.Group{TypeMeta: typeMeta(policyVersion, "Group"), ObjectMeta: meta, Spec: antreav1beta1.GroupSpec{ServiceReference: ref}},
		&antreav1beta1.ClusterGroup{TypeMeta: typeMeta(policyVersion, "ClusterGroup"), ObjectMeta: meta, Spec: antreav1beta1.GroupSpec{NodeSelector: sel}, Status: groupStatus},
		&antreav1beta1.ClusterGroup{TypeMeta: typeMeta(policyVersion, "ClusterGroup"), ObjectMeta: meta, Spec: antreav1beta1.GroupSpec{IPBlocks: []antreav1beta1.IPBlock{{CIDR: "10.0.0.0/8"}}}},
		&antreav1beta1.ClusterGroup{TypeMeta: typeMeta(policyVersion, "ClusterGroup"), ObjectMeta: meta, Spec: antreav1beta1.GroupSpec{ChildGroups: []string{"b"}}},
		&antreav1alpha2.ExternalEntity{TypeMeta: typeMeta("crd.antrea.io/v1alpha2", "ExternalEntity"), ObjectMeta: meta, Spec: antreav1alpha2.ExternalEntitySpec{
			Endpoints:    []antreav1alpha2.Endpoint{{IP: "10.0.0.1", Name: "eth0"}},
			Ports:        []antreav1alpha2.NamedPort{{Protocol: "TCP", Port: 80, Name: "http"}},
			ExternalNode: "cloud",
		}},
		&antreav1alpha1.ExternalNode{TypeMeta: typeMeta("crd.antrea.io/v1alpha1", "ExternalNode"), ObjectMeta: meta, Spec: antreav1alpha1.ExternalNodeSpec{
			Interfaces: []antreav1alpha1.NetworkInterface{{Name: "eth0", IPs: []string{"10.0.0.1", "fd00::1"}}},
		}},
	)
}

func cloudObjects(meta metav1.ObjectMeta, now metav1.Time, ready metav1.Condition) []runtime.Object {
	poll, matched := int32(90), int32(3)
	secret := &cloudv1alpha1.SecretReference{Name: "s", Namespace: "ns", Key: "k"}
	match := cloudv1alpha1.EntityMatch{MatchID: "x-1"}
	return []runtime.Object{
		&cloudv1alpha1.CloudProviderAccount{TypeMeta: typeMeta(cloudVersion, "CloudProviderAccount"), ObjectMeta: meta,
			Spec: cloudv1alpha1.CloudProviderAccountSpec{PollIntervalInSeconds: &poll, AWSConfig: &cloudv1alpha1.CloudProviderAccountAWSConfig{SecretRef: secret, Region: []string{"us-west-2"}, Endpoint: "http://localhost:1"}},
			Status: cloudv1alpha1.CloudProviderAccountStatus{Error: "e", Conditions: []metav1.Condition{ready}, LastSyncTime: &now,
				Regions: []cloudv1alpha1.RegionStatus{{Name: "us-west-2", LastSyncTime: &now, LastError: "e", VMs: 1, Vpcs: 2}}},
		},
		&cloudv1alpha1.CloudProviderAccount{TypeMeta: typeMeta(cloudVersion, "CloudProviderAccount"), ObjectMeta: meta,
			Spec: cloudv1alpha1.CloudProviderAccountSpec{PollIntervalInSeconds: &poll, AzureConfig: &cloudv1alpha1.CloudProviderAccountAzureConfig{SecretRef: secret, Region: []string{"westus2"}}},
		},
		&cloudv1alpha1.CloudEntitySelector{TypeMeta: typeMeta(cloudVersion, "CloudEntitySelector"), ObjectMeta: meta,
			Spec: cloudv1alpha1.CloudEntitySelectorSpec{AccountName: "a", AccountNamespace: "ns", VMSelector: []cloudv1alpha1.VirtualMachineSelector{{
				VpcMatch: &match, VMMatch: []cloudv1alpha1.EntityMatch{match, {MatchName: "n"}}, TagMatch: []cloudv1alpha1.TagMatch{{Key: "k", Values: []string{"v"}}}, Agented: true,
			}}},
			Status: cloudv1alpha1.CloudEntitySelectorStatus{Error: "e", Conditions: []metav1.Condition{ready}, MatchedVMs: &matched},
		},
		&cloudv1alpha1.VirtualMachine{TypeMeta: typeMeta(cloudVersion, "VirtualMachine"), ObjectMeta: meta,
			Spec: cloudv1alpha1.VirtualMachineSpec{Tags: map[string]string{"a": "b"}},
			Status: cloudv1alpha1.VirtualMachineStatus{
				Provider: "AWS", Tags: map[string]string{"a": "b"}, State: "running", Region: "r", Agented: true,
				CloudId: "i", CloudName: "n", CloudVpcId: "v", CloudVpcName: "vn", Conditions: []metav1.Condition{ready}, LastSeen: &now,
				NetworkInterfaces: []cloudv1alpha1.AttachedInterface{{
					Name: "eni-1", MAC: "02:00:00:00:00:01", IPs: []cloudv1alpha1.IPAddress{{AddressType: "InternalIP", Address: "10.0.0.1"}},
					SecurityGroupIds: []string{"sg-1"}, FormerSecurityGroupIds: []string{"sg-2"}, Groups: []string{"asg"},
				}},
				UnimportedTags: []cloudv1alpha1.UnimportedTag{{Key: "a b", Value: "c", Reason: "r"}},
				Policies:       []cloudv1alpha1.AppliedPolicy{{Name: "p", Namespace: "ns", Kind: "AntreaNetworkPolicy", UID: "u", Generation: 2, Phase: "Failed", Message: "m"}},
				PolicySummary:  "0/1",
			},
		},
		&cloudv1alpha1.Vpc{TypeMeta: typeMeta(cloudVersion, "Vpc"), ObjectMeta: meta,
			Status: cloudv1alpha1.VpcStatus{CloudName: "n", CloudId: "v", Provider: "Azure", Region: "r", Tags: map[string]string{"a": "b"}, Cidrs: []string{"10.0.0.0/8"}, Managed: true, Conditions: []metav1.Condition{ready}},
		},
	}
}
