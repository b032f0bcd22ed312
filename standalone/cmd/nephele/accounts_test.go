package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/api/generated/crd"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/estatetest"
	"github.com/nephele-io/nephele/internal/tier"
	"github.com/nephele-io/nephele/standalone/internal/controlplane"
)

var (
	accountSteps    = flag.String("accounts", "1,2", "how many accounts there are, one step after the other, in TestAccountsCost")
	accountVMs      = flag.Int("account-vms", 5, "how many VMs each of them has; 200 in docs/performance.md")
	accountReplicas = flag.Int("replicas", 2, "how many replicas share them")
	accountQuiet    = flag.Duration("quiet", 2*time.Second, "for how long it is measured what they cost at rest; 60s in docs/performance.md")
)

// manyAccounts describes n cloud accounts with as many VMs each, in ten roles.
func manyAccounts(t *testing.T, n, vms int) aws.State {
	t.Helper()
	var b strings.Builder
	b.WriteString("accounts:\n")
	for i := range n {
		fmt.Fprintf(&b, "- id: \"2%011d\"\n  regions:\n  - name: %s\n    vpcs:\n    - name: fleet\n      id: vpc-%08d\n      cidrs: [10.0.0.0/8]\n      groups:\n", i, costRegion, i+1)
		b.WriteString("      - {name: base, rules: [\"tcp 22 from 10.0.0.0/8\"]}\n      vms:\n")
		for vm := range vms {
			fmt.Fprintf(&b, "      - {name: vm-%d-%d, ip: 10.0.%d.%d, groups: [base], tags: {role: r%d, env: prod}}\n", i, vm, vm/200, vm%200+10, vm%costRoles)
		}
	}
	state := estatetest.Parse(t, b.String())
	state.Credentials = nil
	for i := range n {
		state.Credentials = append(state.Credentials, aws.Credential{AccessKeyID: fmt.Sprintf("AKIAMANY%012d", i), Secret: "secret", Account: fmt.Sprintf("2%011d", i)})
	}
	return state
}

// TestAccountsCost measures what accounts cost replicas that share them: while they are imported,
// and at rest. The API server is in the process of the test, and is not counted.
func TestAccountsCost(t *testing.T) {
	tier.OnlyLong(t, "it measures; TestReplicasShareAccounts shows that accounts are shared")
	var steps []int
	for text := range strings.SplitSeq(*accountSteps, ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, n)
	}
	server, err := sim.Start(context.WithoutCancel(t.Context()), sim.Options{State: manyAccounts(t, slices.Max(steps), *accountVMs), JournalSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	cp, err := controlplane.Start(t.Context(), controlplane.Options{DataDir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(cp.Stop(context.Background()), server.Close()); err != nil {
			t.Error(err)
		}
	})
	if err := errors.Join(cp.Ready(t.Context()), cp.InstallCRDs(t.Context(), crd.FS())); err != nil {
		t.Fatal(err)
	}
	scheme := kruntime.NewScheme()
	for _, add := range []func(*kruntime.Scheme) error{clientgoscheme.AddToScheme, cloudv1.AddToScheme, v1beta1.AddToScheme, v1alpha2.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	api, err := client.New(cp.RestConfig(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	create := func(o client.Object) {
		t.Helper()
		if err := api.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	for _, ns := range []string{"cloud", "vms"} {
		create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	}
	var pids []int
	var ended []<-chan struct{}
	for range *accountReplicas {
		pid, end := startReplica(t, cp)
		pids, ended = append(pids, pid), append(ended, end)
	}
	made, last := 0, usages(t, pids)
	for _, n := range steps {
		for ; made < n; made++ {
			create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "cloud", Name: fmt.Sprint("keys-", made)}, StringData: map[string]string{
				"k": fmt.Sprintf(`{"accessKeyId": "AKIAMANY%012d", "accessKeySecret": "secret"}`, made)}})
			a := &cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "cloud", Name: fmt.Sprint("many-", made)}}
			a.Spec.AWSConfig = &cloudv1.CloudProviderAccountAWSConfig{Region: []string{costRegion}, Endpoint: server.URL(),
				SecretRef: &cloudv1.SecretReference{Namespace: "cloud", Name: fmt.Sprint("keys-", made), Key: "k"}}
			s := &cloudv1.CloudEntitySelector{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: fmt.Sprint("many-", made)}}
			s.Spec.AccountNamespace, s.Spec.AccountName = "cloud", a.Name
			s.Spec.VMSelector = []cloudv1.VirtualMachineSelector{{VpcMatch: &cloudv1.EntityMatch{MatchID: fmt.Sprintf("vpc-%08d", made+1)}}}
			create(a)
			create(s)
		}
		begin := time.Now()
		for imported := 0; imported < n; {
			if time.Since(begin) > 50*time.Minute {
				t.Fatalf("%d of %d accounts are imported", imported, n)
			}
			time.Sleep(time.Second) // to ask costs something, too
			for _, end := range ended {
				select {
				case <-end:
					t.Fatalf("a replica has ended when %d of %d accounts were imported", imported, n)
				default:
				}
			}
			var list cloudv1.CloudEntitySelectorList
			if err := api.List(t.Context(), &list); err != nil {
				t.Fatal(err)
			}
			imported = 0
			for i := range list.Items {
				if m := list.Items[i].Status.MatchedVMs; m != nil && int(*m) == *accountVMs {
					imported++
				}
			}
		}
		now := usages(t, pids)
		tellAccounts(t, fmt.Sprintf("%d accounts of %d VMs are imported", n, *accountVMs), now, last, server)
		last = now
		time.Sleep(*accountQuiet)
		now = usages(t, pids)
		tellAccounts(t, fmt.Sprintf("%s at rest with %d", *accountQuiet, n), now, last, server)
		last = now
	}
}

// startReplica starts one, and waits until it shares. The channel is closed when it has ended.
func startReplica(t *testing.T, cp *controlplane.ControlPlane) (pid int, ended <-chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(filepath.Join(t.TempDir(), "replica.log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := program(t, "controller", "--kubeconfig", cp.Kubeconfig(), "--metrics=0", "--api="+address, "--api-cert-dir="+t.TempDir(), "--without-webhooks",
		"--share-accounts", "--share-lease=30s", "--allowed-endpoints=loopback")
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end := make(chan struct{})
	go func() {
		defer close(end)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		<-end
		if t.Failed() {
			raw, _ := os.ReadFile(out.Name())
			t.Logf("%s", raw[max(0, len(raw)-4000):])
		}
	})
	for begin := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		raw, err := os.ReadFile(out.Name())
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(raw), "Shards are this replica's now") {
			return cmd.Process.Pid, end
		}
		if time.Since(begin) > 3*time.Minute {
			t.Fatal("the replica shares nothing")
		}
	}
}

func usages(t *testing.T, pids []int) (all []usage) {
	t.Helper()
	for _, pid := range pids {
		all = append(all, usageOf(t, pid))
	}
	return all
}

// tellAccounts prints a row of the table.
func tellAccounts(t *testing.T, what string, now, last []usage, server *sim.Server) {
	t.Helper()
	var processor, memory []string
	var sum time.Duration
	for i := range now {
		used := now[i].processor - last[i].processor
		sum += used
		processor = append(processor, fmt.Sprintf("%.1f", used.Seconds()))
		memory = append(memory, strconv.Itoa(now[i].resident))
	}
	calls := 0
	for _, n := range server.Journal().Counts() {
		calls += n
	}
	server.Journal().Reset()
	t.Logf("| %d | %s | %.0f s | %.1f s (%s) | %s MB | %d |", len(now), what, now[0].at.Sub(last[0].at).Seconds(), sum.Seconds(),
		strings.Join(processor, ", "), strings.Join(memory, ", "), calls)
}
