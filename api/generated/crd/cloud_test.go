package crd_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const cloudVersion = "crd.cloud.antrea.io/v1alpha1"

func TestAccountRules(t *testing.T) {
	const ref = `secretRef: {name: s, namespace: ns, key: k}`
	runSpecCases(t, cloudVersion, "CloudProviderAccount", []specCase{
		{"minimal", `{awsConfig: {region: [us-west-2], ` + ref + `}}`, ""},
		{"azure", `{azureConfig: {region: [westus2], ` + ref + `}}`, ""},
		{"azure display name", `{azureConfig: {region: [West US 2], ` + ref + `}}`, ""},
		{"endpoint", `{awsConfig: {region: [us-west-2], endpoint: "http://127.0.0.1:4566", ` + ref + `}}`, ""},
		{"endpoint https", `{awsConfig: {region: [us-west-2], endpoint: "https://ec2.example.com", ` + ref + `}}`, ""},
		{"endpoint empty", `{awsConfig: {region: [us-west-2], endpoint: "", ` + ref + `}}`, ""},
		{"no provider", `{}`, "spec.awsConfig: Required value: exactly one of awsConfig and azureConfig"},
		{"two providers", `{awsConfig: {region: [us-west-2], ` + ref + `}, azureConfig: {region: [westus2], ` + ref + `}}`, "exactly one of awsConfig and azureConfig"},
		{"no region", `{awsConfig: {` + ref + `}}`, "spec.awsConfig.region: Required value"},
		{"empty region list", `{awsConfig: {region: [], ` + ref + `}}`, "spec.awsConfig.region: Invalid value: 0"},
		{"blank region", `{awsConfig: {region: [""], ` + ref + `}}`, "spec.awsConfig.region[0]"},
		{"region with space", `{awsConfig: {region: ["us west"], ` + ref + `}}`, "spec.awsConfig.region[0]"},
		{"blank azure region", `{azureConfig: {region: [" "], ` + ref + `}}`, "spec.azureConfig.region[0]"},
		{"region twice", `{awsConfig: {region: [us-west-2, us-west-2], ` + ref + `}}`, "spec.awsConfig.region[1]: Duplicate value"},
		{"no secretRef", `{awsConfig: {region: [us-west-2]}}`, "spec.awsConfig.secretRef: Required value"},
		{"no azure secretRef", `{azureConfig: {region: [westus2]}}`, "spec.azureConfig.secretRef: Required value"},
		{"no key", `{awsConfig: {region: [us-west-2], secretRef: {name: s, namespace: ns}}}`, "spec.awsConfig.secretRef.key: Required value"},
		{"empty key", `{awsConfig: {region: [us-west-2], secretRef: {name: s, namespace: ns, key: ""}}}`, "spec.awsConfig.secretRef.key"},
		{"empty name", `{awsConfig: {region: [us-west-2], secretRef: {name: "", namespace: ns, key: k}}}`, "spec.awsConfig.secretRef.name"},
		{"empty namespace", `{awsConfig: {region: [us-west-2], secretRef: {name: s, namespace: "", key: k}}}`, "spec.awsConfig.secretRef.namespace"},
		{"bad endpoint", `{awsConfig: {region: [us-west-2], endpoint: "localhost", ` + ref + `}}`, "spec.awsConfig.endpoint"},
		{"ftp endpoint", `{awsConfig: {region: [us-west-2], endpoint: "ftp://localhost", ` + ref + `}}`, "endpoint must be an http or https URL"},
		{"shortest poll", `{pollIntervalInSeconds: 30, awsConfig: {region: [us-west-2], ` + ref + `}}`, ""},
		{"poll too short", `{pollIntervalInSeconds: 29, awsConfig: {region: [us-west-2], ` + ref + `}}`, "spec.pollIntervalInSeconds: Invalid value: 29"},
		{"negative poll", `{pollIntervalInSeconds: -1, awsConfig: {region: [us-west-2], ` + ref + `}}`, "spec.pollIntervalInSeconds"},
		{"poll is text", `{pollIntervalInSeconds: "60", awsConfig: {region: [us-west-2], ` + ref + `}}`, "spec.pollIntervalInSeconds"},
		{"unknown field", `{awsConfig: {region: [us-west-2], regions: [x], ` + ref + `}}`, `"spec.awsConfig.regions"`},
		{"brake", `{brake: {percent: 0, interfaces: 0}, awsConfig: {region: [us-west-2], ` + ref + `}}`, ""},
		{"brake that never holds", `{brake: {percent: 100}, awsConfig: {region: [us-west-2], ` + ref + `}}`, ""},
		{"more than all", `{brake: {percent: 101}, awsConfig: {region: [us-west-2], ` + ref + `}}`, "spec.brake.percent: Invalid value: 101"},
		{"less than nothing", `{brake: {percent: -1}, awsConfig: {region: [us-west-2], ` + ref + `}}`, "spec.brake.percent: Invalid value: -1"},
		{"fewer than none", `{brake: {interfaces: -1}, awsConfig: {region: [us-west-2], ` + ref + `}}`, "spec.brake.interfaces: Invalid value: -1"},
	})
}

func TestAccountDefaults(t *testing.T) {
	s := newServer(t)
	stored, err := s.create(withSpec(t, cloudVersion, "CloudProviderAccount",
		`{awsConfig: {region: [us-west-2], secretRef: {name: s, namespace: ns, key: k}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, _, _ := unstructured.NestedInt64(stored.Object, "spec", "pollIntervalInSeconds"); got != 60 {
		t.Errorf("pollIntervalInSeconds = %d, want 60", got)
	}
	stored, err = s.create(withSpec(t, cloudVersion, "CloudProviderAccount",
		`{brake: {percent: 30}, awsConfig: {region: [us-west-2], secretRef: {name: s, namespace: ns, key: k}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, _, _ := unstructured.NestedInt64(stored.Object, "spec", "brake", "interfaces"); got != 20 {
		t.Errorf("brake.interfaces = %d, want 20", got)
	}
}

func TestSelectorRules(t *testing.T) {
	spec := func(entries string) string {
		return `{accountName: a, accountNamespace: ns, vmSelector: [` + entries + `]}`
	}
	native := func(entries string) string {
		return `{accountName: a, accountNamespace: ns, nativeSelector: [` + entries + `]}`
	}
	interfaces := func(entries string) string {
		return `{accountName: a, accountNamespace: ns, interfaceSelector: [` + entries + `]}`
	}
	runSpecCases(t, cloudVersion, "CloudEntitySelector", []specCase{
		{"vpc by id", spec(`{vpcMatch: {matchID: vpc-1}}`), ""},
		{"vpc by name", spec(`{vpcMatch: {matchName: main}}`), ""},
		{"vms", spec(`{vmMatch: [{matchID: i-1}, {matchName: web}]}`), ""},
		{"vms in vpc", spec(`{vpcMatch: {matchID: vpc-1}, vmMatch: [{matchID: i-1}], agented: true}`), ""},
		{"tags", spec(`{tagMatch: [{key: env, values: [prod, dev]}, {key: "aws:autoscaling:groupName"}]}`), ""},
		{"empty other half", spec(`{vpcMatch: {matchID: vpc-1, matchName: ""}}`), ""},
		{"whole and part of one vpc", spec(`{vpcMatch: {matchID: vpc-1}}, {vpcMatch: {matchID: vpc-1}, vmMatch: [{matchID: i-1}]}`), ""},
		{"nothing selected", `{accountName: a, accountNamespace: ns, vmSelector: []}`, ""},
		{"no account", `{accountNamespace: ns, vmSelector: []}`, "spec.accountName: Required value"},
		{"empty account", `{accountName: "", accountNamespace: ns, vmSelector: []}`, "spec.accountName"},
		{"no account namespace", `{accountName: a, vmSelector: []}`, "spec.accountNamespace: Required value"},
		{"no vmSelector", `{accountName: a, accountNamespace: ns}`, "spec.vmSelector: Required value"},
		{"empty entry", spec(`{}`), "spec.vmSelector[0]: Invalid value: one of vpcMatch, vmMatch and tagMatch must be set"},
		{"empty vmMatch", spec(`{vmMatch: []}`), "one of vpcMatch, vmMatch and tagMatch must be set"},
		{"only agented", spec(`{agented: true}`), "one of vpcMatch, vmMatch and tagMatch must be set"},
		{"id and name of vpc", spec(`{vpcMatch: {matchID: vpc-1, matchName: main}}`), "spec.vmSelector[0].vpcMatch: Invalid value: exactly one of matchID and matchName"},
		{"id and name of vm", spec(`{vmMatch: [{matchID: i-1, matchName: web}]}`), "spec.vmSelector[0].vmMatch[0]: Invalid value: exactly one of matchID and matchName"},
		{"neither", spec(`{vpcMatch: {}}`), "exactly one of matchID and matchName"},
		{"vpc twice", spec(`{vpcMatch: {matchID: vpc-1}}, {vpcMatch: {matchID: vpc-1}, agented: true}`), "spec.vmSelector: Invalid value: vmSelector must not select the same whole VPC twice"},
		{"vm twice", spec(`{vmMatch: [{matchID: i-1}, {matchID: i-1}]}`), ""},
		{"vm name twice", spec(`{vmMatch: [{matchName: web}, {matchName: db}, {matchName: web}]}`), ""},
		{"tag key twice", spec(`{tagMatch: [{key: env}, {key: env, values: [a]}]}`), "spec.vmSelector[0].tagMatch[1]: Duplicate value"},
		{"tag without key", spec(`{tagMatch: [{values: [a]}]}`), "spec.vmSelector[0].tagMatch[0].key: Required value"},
		{"services by kind", native(`{kind: RDSInstance}`), ""},
		{"services by all", native(`{kind: VPCEndpoint, vpcMatch: {matchName: main}, serviceMatch: [{matchName: orders}, {matchID: "arn:aws:rds:eu-west-1:1:db:orders"}], tagMatch: [{key: env}]}`), ""},
		{"services beside VMs", `{accountName: a, accountNamespace: ns, vmSelector: [{vpcMatch: {matchID: vpc-1}}], nativeSelector: [{kind: RDSInstance}]}`, ""},
		{"no service", native(``), "spec.vmSelector: Required value: one of vmSelector, nativeSelector and interfaceSelector must be set"},
		{"empty entry for services", native(`{}`), "spec.nativeSelector[0]: Invalid value: one of kind, vpcMatch, serviceMatch and tagMatch must be set"},
		{"unknown kind", native(`{kind: Database}`), "spec.nativeSelector[0].kind: Unsupported value"},
		{"id and name of a service", native(`{serviceMatch: [{matchID: a, matchName: b}]}`), "spec.nativeSelector[0].serviceMatch[0]: Invalid value: exactly one of matchID and matchName"},
		{"interfaces by id and tag", interfaces(`{vpcMatch: {matchID: vpc-1}, interfaceMatch: [{matchID: eni-1}], tagMatch: [{key: env}]}`), ""},
		{"empty entry for interfaces", interfaces(`{}`), "spec.interfaceSelector[0]: Invalid value: one of vpcMatch, interfaceMatch and tagMatch must be set"},
		{"empty interfaceMatch", interfaces(`{interfaceMatch: []}`), "one of vpcMatch, interfaceMatch and tagMatch must be set"},
		{"empty serviceMatch", native(`{serviceMatch: []}`), "one of kind, vpcMatch, serviceMatch and tagMatch must be set"},
		{"tag of a service twice", native(`{tagMatch: [{key: env}, {key: env}]}`), "spec.nativeSelector[0].tagMatch[1]: Duplicate value"},
	})
}

func TestSelectorAccountIsImmutable(t *testing.T) {
	s := newServer(t)
	const format = `{accountName: %s, accountNamespace: %s, vmSelector: [{vpcMatch: {matchID: %s}}]}`
	object := func(name, namespace, vpc string) *unstructured.Unstructured {
		return withSpec(t, cloudVersion, "CloudEntitySelector", fmt.Sprintf(format, name, namespace, vpc))
	}
	stored, err := s.create(object("a", "ns", "vpc-1"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.update(object("a", "ns", "vpc-2"), stored)
	check(t, err, "")
	_, err = s.update(object("b", "ns", "vpc-1"), stored)
	check(t, err, "spec.accountName: Invalid value: \"b\": accountName is immutable")
	_, err = s.update(object("a", "m", "vpc-1"), stored)
	check(t, err, "spec.accountNamespace: Invalid value: \"m\": accountNamespace is immutable")
}

// A selector of the greatest size is checked within the limits that kube-apiserver sets to the cost of the rules.
func TestLargestSelectorIsAccepted(t *testing.T) {
	var entries []string
	for i := range 128 {
		entries = append(entries, fmt.Sprintf(`{vpcMatch: {matchID: %q}}`, fmt.Sprintf("%s-%d", strings.Repeat("v", 500), i)))
	}
	spec := `{accountName: a, accountNamespace: ns, vmSelector: [` + strings.Join(entries, ", ") + `]}`
	_, err := newServer(t).create(withSpec(t, cloudVersion, "CloudEntitySelector", spec))
	check(t, err, "")
}
