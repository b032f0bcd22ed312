// Package previewtest gives tests of answers what they ask about: an account in the simulator, a
// planner over manifests, and plans that are carried out.
//
// It owns the manifests and random accounts that tests of several packages share, and keeps no
// state: a simulator ends with the test that started it. What cannot be read ends the test. Nothing
// but tests may import it.
package previewtest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws"
	"github.com/nephele-io/nephele/internal/controller/clouds"
	"github.com/nephele-io/nephele/internal/preview"
	"github.com/nephele-io/nephele/internal/sim"
	simaws "github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/estate"
)

// ShopInventory has the machines of docs/examples/policy-tests, with what an account says of them.
const ShopInventory = `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudProviderAccount
metadata: {name: prod, namespace: shop}
spec:
  awsConfig: {region: [eu-west-1], secretRef: {name: s, namespace: shop, key: k}}
  failsafe:
  - {direction: Ingress, protocol: TCP, port: 2222, cidrs: [192.0.2.0/24]}
---
apiVersion: crd.antrea.io/v1alpha2
kind: ExternalEntity
metadata: {name: virtualmachine-i-1, namespace: shop, labels: {app: web, nephe.antrea.io/cloud-vm-name: web-1, nephe.antrea.io/cloud-vm-uid: i-1}}
spec: {externalNode: cloud/shop/prod, endpoints: [{ip: 10.1.0.10}, {ip: 203.0.113.80}]}
---
apiVersion: crd.antrea.io/v1alpha2
kind: ExternalEntity
metadata: {name: virtualmachine-i-2, namespace: shop, labels: {app: db, nephe.antrea.io/cloud-vm-name: db-1, nephe.antrea.io/cloud-vm-uid: i-2}}
spec: {externalNode: cloud/shop/prod, endpoints: [{ip: 10.1.0.20}]}
---
apiVersion: crd.antrea.io/v1alpha2
kind: ExternalEntity
metadata: {name: virtualmachine-i-3, namespace: shop, labels: {app: batch, nephe.antrea.io/cloud-vm-name: batch-1, nephe.antrea.io/cloud-vm-uid: i-3}}
spec: {externalNode: cloud/shop/prod, endpoints: [{ip: 10.1.0.30}]}
---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: VirtualMachine
metadata: {name: i-2, namespace: shop}
`

// TwoVMs are a web server and a database of two accounts, and the policy between them.
const TwoVMs = `
apiVersion: v1
kind: Namespace
metadata: {name: vms}
---
apiVersion: crd.antrea.io/v1alpha2
kind: ExternalEntity
metadata: {name: web, namespace: vms, labels: {role: web}}
spec: {externalNode: cloud-a, endpoints: [{ip: 10.0.1.1}, {ip: 52.0.0.1}]}
---
apiVersion: crd.antrea.io/v1alpha2
kind: ExternalEntity
metadata: {name: db, namespace: vms, labels: {role: db, nephe.antrea.io/cloud-vm-name: primary-db}}
spec: {externalNode: cloud-b, endpoints: [{ip: 10.0.2.1}], ports: [{name: sql, port: 5432}]}
---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: db, namespace: vms}
spec:
  priority: 5
  appliedTo: [{externalEntitySelector: {matchLabels: {role: db}}}]
  ingress:
  - name: web
    action: Allow
    from: [{externalEntitySelector: {matchLabels: {role: web}}}]
    ports: [{port: 5432}]
`

// HybridCloud is where a folder two below the root finds the description of a real account.
const HybridCloud = "../sim/estate/data/hybrid-cloud"

// HybridManifests select two machines of a VPC of HybridCloud; entities are as the inventory makes
// them.
const HybridManifests = `
apiVersion: v1
kind: Namespace
metadata: {name: vms}
---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudProviderAccount
metadata: {name: hybrid, namespace: vms}
spec:
  awsConfig:
    region: [us-west-2]
    secretRef: {name: s, namespace: vms, key: k}
---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudEntitySelector
metadata: {name: two, namespace: vms}
spec:
  accountName: hybrid
  accountNamespace: vms
  vmSelector:
  - vmMatch: [{matchID: i-075dc46a9bc347264}, {matchID: i-0837c877110427f2b}]
---
apiVersion: crd.antrea.io/v1alpha2
kind: ExternalEntity
metadata:
  name: virtualmachine-i-075dc46a9bc347264
  namespace: vms
  labels: {nephe.antrea.io/cloud-vm-uid: i-075dc46a9bc347264, nephe.antrea.io/cloud-region: us-west-2}
spec: {externalNode: cloud/vms/hybrid, endpoints: [{ip: 192.168.1.25}]}
---
apiVersion: crd.antrea.io/v1alpha2
kind: ExternalEntity
metadata:
  name: virtualmachine-i-0837c877110427f2b
  namespace: vms
  labels: {nephe.antrea.io/cloud-vm-uid: i-0837c877110427f2b, nephe.antrea.io/cloud-region: us-west-2}
spec: {externalNode: cloud/vms/hybrid, endpoints: [{ip: 192.168.1.138}]}
`

// SSHPolicy lets one of these machines be reached by ssh from a block, and by nothing else.
const SSHPolicy = `
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: ssh, namespace: vms}
spec:
  priority: 5
  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/cloud-vm-uid: i-075dc46a9bc347264}}}]
  ingress:
  - {name: ssh, action: Allow, from: [{ipBlock: {cidr: 10.0.0.0/8}}], ports: [{port: 22}]}
`

// HalfDone are two policies for the machines of HybridManifests: one that no security group can
// say, and one that is not enforced yet.
const HalfDone = `
---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: sees, namespace: vms}
spec:
  priority: 5
  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/cloud-vm-uid: i-075dc46a9bc347264}}}]
  ingress:
  - {name: http, action: Allow, from: [{ipBlock: {cidr: 10.0.0.0/8}}], ports: [{port: 80}], l7Protocols: [{http: {host: x}}]}
---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: later, namespace: vms}
spec:
  priority: 6
  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/cloud-vm-uid: i-0837c877110427f2b}}}]
  ingress:
  - {name: ssh, action: Allow, from: [{ipBlock: {cidr: 10.0.0.0/8}}], ports: [{port: 22}]}
`

// Loaded is the state of the cloud that a description in a file or folder has.
func Loaded(t testing.TB, path string) simaws.State {
	t.Helper()
	state, _, err := estate.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// Simulated starts a cloud in a state, until the test ends.
func Simulated(t testing.TB, state simaws.State, seed uint64) *sim.Server {
	t.Helper()
	server, err := sim.Start(t.Context(), sim.Options{State: state, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return server
}

// AWS is a simulated cloud as AWS, which is asked about its accounts in a region.
func AWS(t testing.TB, server *sim.Server, region string) cloud.Provider {
	t.Helper()
	provider, err := aws.New(aws.Config{
		Credential: cloudv1alpha1.AWSCredential{AccessKeyID: estate.DefaultAccessKeyID, AccessKeySecret: estate.DefaultSecret},
		Region:     region, Endpoint: server.URL(), UserAgent: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	return provider
}

// Inputs reads manifests, none of which may be refused.
func Inputs(t testing.TB, manifests string) *preview.Inputs {
	t.Helper()
	in, err := preview.LoadInputs([]string{"-"}, strings.NewReader(manifests))
	if err != nil {
		t.Fatalf("%v in\n%s", err, manifests)
	}
	if len(in.Refused) > 0 {
		t.Fatalf("refused %v in\n%s", in.Refused, manifests)
	}
	return in
}

// Planner plans for manifests, all of whose accounts the provider serves.
func Planner(t testing.TB, provider cloud.Provider, manifests string) *preview.Planner {
	t.Helper()
	return &preview.Planner{In: Inputs(t, manifests), ClusterID: "test", Lowerers: clouds.LowererOf,
		Open: func(context.Context, *cloudv1alpha1.CloudProviderAccount) (preview.Reader, error) {
			return provider, nil
		}}
}

// Apply does at most so many steps of the plan for the only account, all if the number is negative.
// It returns how many it did, and whether nothing is planned.
func Apply(t testing.TB, provider cloud.Provider, p *preview.Planner, steps int) (done int, empty bool) {
	t.Helper()
	planned, err := p.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	account := planned.Accounts[0]
	ids := map[string]string{}
	for _, g := range account.Regions[0].Snapshot.Groups {
		ids[g.NetworkID+"/"+g.Name] = g.ID
	}
	for _, s := range account.Result.Plan.Steps {
		if done == steps {
			return done, false
		}
		id, err := provider.Apply(t.Context(), s.Scope, s.Op.Resolve(s.Network, ids))
		if err != nil {
			t.Fatalf("%s: %v", s.Op, err)
		}
		if s.Op.Kind == cloud.OpCreateGroup {
			ids[s.Network+"/"+s.Op.Group.Name] = id
		}
		done++
	}
	return done, account.Result.Plan.Empty()
}

// Perform applies plans to the cloud until nothing is left to do.
func Perform(t testing.TB, provider cloud.Provider, p *preview.Planner) {
	t.Helper()
	for range 8 {
		if _, empty := Apply(t, provider, p, -1); empty {
			return
		}
	}
	t.Fatal("planning does not come to an end")
}

// Imports are manifests of an account that imports, into the Namespace vms, what the entries for
// VMs and native services select. The cloud is the part of its spec that names the cloud.
func Imports(cloud, vms, services string, more ...string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Namespace
metadata: {name: vms}
---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudProviderAccount
metadata: {name: a, namespace: vms}
spec:
  %s, secretRef: {name: s, namespace: vms, key: k}}
---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudEntitySelector
metadata: {name: all, namespace: vms}
spec:
  accountName: a
  accountNamespace: vms
  vmSelector: [%s]
  nativeSelector: [%s]
`, cloud, vms, services) + strings.Join(more, "")
}

// JSON shows an answer to the reader of a failed test.
func JSON(answer any) string {
	raw, err := json.MarshalIndent(answer, "", "  ")
	if err != nil {
		return err.Error()
	}
	return string(raw)
}
