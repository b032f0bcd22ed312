package controller

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/apiserver"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/explain/input"
)

// TestPlansCallNoCloud: accounts of manifests, and stored ones that manifests change, are not
// opened for a PlanReview, and their Secrets not read: there is nothing that could read one.
func TestPlansCallNoCloud(t *testing.T) {
	var calls atomic.Int32
	cloud := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }))
	defer cloud.Close()
	stored := &cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "stored", UID: "1"}}
	stored.Spec.AWSConfig = &cloudv1.CloudProviderAccountAWSConfig{Region: []string{"eu-west-1"}}
	c := explain.Compute(&input.Objects{Accounts: []*cloudv1.CloudProviderAccount{stored}})
	s := &seen{computed: c}
	world := func() *explain.World { return c.World(false) }
	manifest := func(name string) string {
		return "---\napiVersion: crd.cloud.antrea.io/v1alpha1\nkind: CloudProviderAccount\nmetadata: {name: " + name + ", namespace: shop}\n" +
			"spec: {awsConfig: {region: [eu-west-1], endpoint: '" + cloud.URL + "', secretRef: {name: keys, namespace: shop, key: credentials}}}\n"
	}
	spec := analysis.PlanReviewSpec{Manifests: manifest("stored") + manifest("new")}
	all := apiserver.Sight{All: true, Cluster: true, Namespace: func(string) bool { return true }, May: func(string, string, string, string, string) bool { return true }}
	status, err := (&reviews{}).plan(t.Context(), s, c, world, nil, all, spec)
	if err != nil || len(status.Errors) > 0 || len(status.Accounts) != 2 {
		t.Fatalf("%v, %+v", err, status)
	}
	for _, a := range status.Accounts {
		if !strings.Contains(a.Error, "not read") {
			t.Errorf("account %s: %q, want that it is not read", a.Account, a.Error)
		}
	}
	if calls.Load() > 0 {
		t.Errorf("%d calls reached the endpoint of the manifests", calls.Load())
	}
	if c.Objects.Accounts[0] != stored || stored.Spec.AWSConfig.Endpoint != "" || stored.UID != "1" {
		t.Errorf("planning has changed what the informers hold: %+v", stored)
	}

	// A caller that sees all policies, but no accounts, gets no plans of them, and brings none.
	all.May = func(_, _, resource, _, _ string) bool { return resource != "cloudprovideraccounts" }
	if status, err = (&reviews{}).plan(t.Context(), s, c, world, nil, all, analysis.PlanReviewSpec{}); err != nil || len(status.Accounts) > 0 || !status.Limited {
		t.Errorf("%v, %+v, want no accounts", err, status)
	}
	if status, err = (&reviews{}).plan(t.Context(), s, c, world, nil, all, spec); err != nil || len(status.Errors) != 2 || status.Errors[0].Reason != analysis.ErrorKindNotTaken {
		t.Errorf("%v, %+v, want two errors", err, status.Errors)
	}
}
