package previewtest

import (
	"context"
	"testing"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/aws"
	"github.com/nephele-io/nephele/internal/controller/clouds"
	"github.com/nephele-io/nephele/internal/preview"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/estate"
	"github.com/nephele-io/nephele/internal/sim/estatetest"
)

// SmallShop is an account of two machines that admit SSH and HTTP.
const SmallShop = `
accounts:
- id: "111122223333"
  alias: a
  regions:
  - name: eu-west-1
    vpcs:
    - name: shop
      cidrs: [10.1.0.0/16]
      groups:
      - {name: web, rules: ["tcp 80 from any", "tcp 22 from any"]}
      vms:
      - {id: i-0000000000000001a, name: web-1, ip: 10.1.1.10, groups: [web], tags: {app: web}}
      - {id: i-0000000000000002a, name: web-2, ip: 10.1.1.11, groups: [web], tags: {app: web}}
`

// SmallShopManifests select these machines, and let in HTTP of private addresses.
const SmallShopManifests = `
apiVersion: v1
kind: Namespace
metadata: {name: vms}
---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudProviderAccount
metadata: {name: a, namespace: vms}
spec:
  awsConfig: {region: [eu-west-1], secretRef: {name: s, namespace: vms, key: k}}
---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudEntitySelector
metadata: {name: sel, namespace: vms}
spec:
  accountName: a
  accountNamespace: vms
  vmSelector:
  - vmMatch: [{matchID: i-0000000000000001a}, {matchID: i-0000000000000002a}]
---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: web, namespace: vms}
spec:
  priority: 5
  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-app: web}}}]
  ingress:
  - {name: web, action: Allow, from: [{ipBlock: {cidr: 10.0.0.0/8}}], ports: [{port: 80}]}
`

// Answer is what "nephele plan" answers about manifests and accounts that a description in YAML
// has.
func Answer(t testing.TB, description, manifests string) analysis.PlanAnswer {
	t.Helper()
	return AnswerIn(t, Simulated(t, estatetest.Parse(t, description), 0), manifests)
}

// AnswerIn is what "nephele plan" answers about manifests and a simulated cloud as it is now. Each
// account is read as its manifest says: in its region, and with its quotas.
func AnswerIn(t testing.TB, server *sim.Server, manifests string) analysis.PlanAnswer {
	t.Helper()
	p := Planner(t, nil, manifests)
	p.Open = func(_ context.Context, a *cloudv1alpha1.CloudProviderAccount) (preview.Reader, error) {
		return aws.New(aws.Config{
			Credential: cloudv1alpha1.AWSCredential{AccessKeyID: estate.DefaultAccessKeyID, AccessKeySecret: estate.DefaultSecret},
			Region:     a.Spec.AWSConfig.Region[0], Endpoint: server.URL(), Limits: clouds.LimitsOf(a.Spec.AWSConfig.Quotas), UserAgent: "test",
		})
	}
	planned, err := p.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p.Answer(planned)
}
