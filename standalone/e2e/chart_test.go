package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/api/generated/crd"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/estate"
	"github.com/nephele-io/nephele/standalone/internal/controlplane"
)

// rendered is what the chart nephele installs with values, and what it runs before it goes; with
// -every, all that it installs with any combination of its switches. Helm's code is in a module of
// its own.
func rendered(t *testing.T, values string, args ...string) (installed, hooks []*unstructured.Unstructured) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"run", "-C", "../../packaging", "./render"}, args...)...)
	var errOut bytes.Buffer
	cmd.Stdin, cmd.Stderr = strings.NewReader(values), &errOut
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("render the chart: %v\n%s", err, errOut.String())
	}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var line struct{ Object map[string]any }
		if err := d.Decode(&line); err != nil {
			t.Fatal(err)
		}
		o := &unstructured.Unstructured{Object: line.Object}
		if o.GetAnnotations()["helm.sh/hook"] == "" {
			installed = append(installed, o)
		} else {
			hooks = append(hooks, o)
		}
	}
	return installed, hooks
}

// TestChartIsValid: kube-apiserver takes every object of every combination of the chart's switches,
// all fields known to it. The kinds of others are for the tests of the chart.
func TestChartIsValid(t *testing.T) {
	t.Parallel()
	installed, hooks := rendered(t, "", "-every")
	cp, err := controlplane.Start(t.Context(), controlplane.Options{DataDir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := cp.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := cp.InstallCRDs(t.Context(), crd.FS()); err != nil {
		t.Fatal(err)
	}
	admin := newClient(t, cp.RestConfig())
	for _, name := range []string{"nephele", "cloud-accounts"} {
		if err := admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"kube-system", "nephele"} { // of the Pods of helm test
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "nephele-test"}}
		if err := admin.Create(t.Context(), account); err != nil {
			t.Fatal(err)
		}
	}
	kinds := map[string]int{}
	for _, o := range slices.Concat(installed, hooks) {
		if o.GetKind() == "ServiceAccount" && o.GetName() == "nephele-test" {
			continue
		}
		group, _, _ := strings.Cut(o.GetAPIVersion(), "/")
		kinds[o.GetKind()]++
		if group == "cert-manager.io" || group == "monitoring.coreos.com" {
			continue
		}
		err := admin.Create(t.Context(), o, client.DryRunAll, &client.CreateOptions{Raw: &metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict, DryRun: []string{metav1.DryRunAll}}})
		if err != nil {
			t.Errorf("%s %s/%s: %v", o.GetKind(), o.GetNamespace(), o.GetName(), err)
		}
	}
	if kinds["Deployment"] < 50 || kinds["NetworkPolicy"] < 2 || kinds["Job"] < 2 || kinds["PodDisruptionBudget"] < 1 {
		t.Errorf("too few to be every combination: %v", kinds)
	}
}

// TestChartInExistingCluster runs the controller with the arguments of the chart's Deployment and
// the rights of its ServiceAccount: it enforces, and is refused nothing. Before the release is
// deleted, the chart's Job has every account give back what it holds, with the Job's own rights.
func TestChartInExistingCluster(t *testing.T) {
	t.Parallel()
	installed, hooks := rendered(t, `
replicas: 2
image: {repository: registry.example/nephele, digest: "sha256:`+strings.Repeat("0a", 32)+`"}
webhooks: {enabled: false}   # kube-apiserver does not reach the Service here
allowedEndpoints: [loopback]
extraArgs: [--history-versions=2]
`)
	// Helm makes what belongs to a hook just before it; here it is there from the beginning.
	var job batchv1.Job
	for _, o := range hooks {
		if o.GetKind() != "Job" {
			installed = append(installed, o)
		} else if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &job); err != nil {
			t.Fatal(err)
		}
	}
	x := newExistingWith(t, installed)
	state, _, err := estate.HybridCloud()
	x.must(err)
	server, err := sim.Start(context.WithoutCancel(t.Context()), sim.Options{State: state})
	x.must(err)
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	p := x.start()
	x.ready(p)
	x.enforced(server)

	raw, err := os.ReadFile(manifests + "/samples/quickstart.yaml")
	x.must(err)
	for _, doc := range strings.Split(strings.Replace(string(raw), "http://127.0.0.1:8555", server.URL(), 1), "\n---\n") {
		if o := fromText(t, doc); o.GetKind() != "Namespace" { // that one is still there
			x.must(x.admin.Create(t.Context(), o))
		}
	}
	held := func() (n int) {
		for _, r := range server.World().State().Regions {
			for _, i := range r.NetworkInterfaces {
				for _, g := range i.Groups {
					if strings.HasPrefix(g.Name, "nephele-") {
						n++
					}
				}
			}
		}
		return n
	}
	eventually(t, "interfaces are guarded", func(context.Context) (bool, string) { return held() == 7, fmt.Sprint(held()) })
	c := job.Spec.Template.Spec.Containers[0]
	login := x.login(job.Namespace, job.Spec.Template.Spec.ServiceAccountName)
	if code, out, errOut := run(t, append(c.Args, "--kubeconfig="+login)...); code != 0 || held() != 0 {
		t.Errorf("the Job ends with %d, %d interfaces are still guarded\n%s%s", code, held(), out, errOut)
	}
	var accounts cloudv1.CloudProviderAccountList
	x.must(x.admin.List(t.Context(), &accounts))
	if len(accounts.Items) != 0 {
		t.Errorf("accounts are left: %d", len(accounts.Items))
	}
	// It may do no more than that.
	if _, err := x.kube.AppsV1().Deployments("kube-system").Get(t.Context(), "nephele-controller", metav1.GetOptions{}); err != nil {
		t.Errorf("the Deployment is gone before helm deletes it: %v", err)
	}
	p.end()
}
