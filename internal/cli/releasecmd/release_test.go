package releasecmd

import (
	"bytes"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

// TestRelease: the command writes reason and end on the object that is meant, keeps other
// annotations, takes both away in the end, and refuses what it cannot mean.
func TestRelease(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 12, 0, 0, 500, time.UTC)
	const released, glass, until = "is released", cloudv1.AnnotationBreakGlass, cloudv1.AnnotationBreakGlassUntil
	reason := strings.Repeat("x", maxReason+1)
	for name, c := range map[string]struct {
		args string // separated by |
		has  map[string]string
		want map[string]string // of what is meant, the VM i-1 if nothing is; nil: as before
		says string
		fail string
	}{
		"the usual":           {args: "shop/i-1|--reason|INC-1", want: map[string]string{"a": "b", glass: "INC-1", until: "2026-01-02T14:00:00Z"}, says: released + " until 2026-01-02T14:00:00Z (120m)"},
		"by its cloud's name": {args: "shop/web 1|--reason|INC-1|--for|30m", want: map[string]string{"a": "b", glass: "INC-1", until: "2026-01-02T12:30:00Z"}, says: "shop/i-1 (web 1) is released"},
		"a selector":          {args: "shop/all|--selector|--reason|INC-1", want: map[string]string{"a": "b", glass: "INC-1", until: "2026-01-02T14:00:00Z"}, says: "nephele release shop/all --selector --end"},
		"without an end": {args: "shop/i-1|--reason|INC-1|--endless", has: map[string]string{"a": "b", glass: "old", until: "2026-01-01T00:00:00Z"},
			want: map[string]string{"a": "b", glass: "INC-1"}, says: "until somebody ends it"},
		"longer": {args: "shop/i-1|--reason|INC-2|--for|8h", has: map[string]string{"a": "b", glass: "INC-1", until: "2026-01-02T13:00:00Z"},
			want: map[string]string{"a": "b", glass: "INC-2", until: "2026-01-02T20:00:00Z"}, says: released},
		"ended":          {args: "shop/i-1|--end", has: map[string]string{"a": "b", glass: "INC-1", until: "2026-01-02T13:00:00Z"}, want: map[string]string{"a": "b"}, says: "is over"},
		"nothing to end": {args: "shop/i-1|--end", says: "nothing was changed"},
		"no object":      {args: "shop/i-3|--reason|x", fail: `no VirtualMachine, CloudNativeService or NetworkInterface of namespace shop has the name "i-3"`},
		"of one name":    {args: "shop/twin|--reason|x", fail: "2 in namespace shop are called \"twin\": name one as it is in the cluster, such as VirtualMachine \"i-2\""},
		"a service":      {args: "shop/rdsinstance-orders-0|--reason|INC-1", want: map[string]string{"a": "b", glass: "INC-1", until: "2026-01-02T14:00:00Z"}, says: "CloudNativeService shop/rdsinstance-orders-0 is released"},
		"the cloud's name of a service": {args: "shop/orders|--end", has: map[string]string{"a": "b", glass: "INC-1"}, want: map[string]string{"a": "b"},
			says: "CloudNativeService shop/rdsinstance-orders-0 (orders): the release is over"},
		"an interface":   {args: "shop/eni-1|--reason|INC-1", want: map[string]string{"a": "b", glass: "INC-1", until: "2026-01-02T14:00:00Z"}, says: "NetworkInterface shop/eni-1 is released"},
		"no namespace":   {args: "i-1|--reason|x", fail: "NAMESPACE/NAME"},
		"nothing":        {args: "--reason|x", fail: "NAMESPACE/NAME"},
		"no reason":      {args: "shop/i-1", fail: "--reason is missing"},
		"blank reason":   {args: "shop/i-1|--reason| ", fail: "--reason is missing"},
		"long reason":    {args: "shop/i-1|--reason|" + reason, fail: "at most 500"},
		"too short":      {args: "shop/i-1|--reason|x|--for|59s", fail: "want 1m0s to 168h0m0s"},
		"too long":       {args: "shop/i-1|--reason|x|--for|169h", fail: "want 1m0s to 168h0m0s"},
		"backwards":      {args: "shop/i-1|--reason|x|--for|-2h", fail: "want 1m0s to 168h0m0s"},
		"both":           {args: "shop/i-1|--reason|x|--for|2h|--endless", fail: "give one of them"},
		"an end and why": {args: "shop/i-1|--end|--reason|x", fail: "--end ends a release"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scheme := runtime.NewScheme()
			if err := cloudv1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			before := map[string]string{"a": "b"}
			if c.has != nil {
				before = c.has
			}
			vm := func(name, cloudName string) *cloudv1.VirtualMachine {
				return &cloudv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Annotations: before}, Status: cloudv1.VirtualMachineStatus{CloudName: cloudName}}
			}
			service := &cloudv1.CloudNativeService{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "rdsinstance-orders-0", Annotations: before},
				Status: cloudv1.CloudNativeServiceStatus{ImportedStatus: cloudv1.ImportedStatus{CloudName: "orders"}}}
			nic := &cloudv1.NetworkInterface{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "eni-1", Annotations: before}}
			selector := &cloudv1.CloudEntitySelector{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "all", Annotations: before}}
			api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(vm("i-1", "web 1"), vm("i-2", "twin"), vm("i-4", "twin"), service, nic, selector).Build()
			cmd := Command(Needs{Register: func(*pflag.FlagSet) {}, Client: func() (client.Client, error) { return api, nil },
				Printable: func(s string) string { return s }, Now: func() time.Time { return now }})
			var out bytes.Buffer
			cmd.SetOut(&out)
			cmd.SetErr(&out)
			cmd.SetArgs(strings.Split(c.args, "|"))
			err := cmd.ExecuteContext(t.Context())
			if c.fail == "" && err != nil || c.fail != "" && (err == nil || !strings.Contains(err.Error(), c.fail)) {
				t.Fatalf("error %v; want %q", err, c.fail)
			}
			if c.fail == "" && !strings.Contains(out.String(), c.says) {
				t.Errorf("says %q; want %q", out.String(), c.says)
			}
			want := before
			if c.want != nil {
				want = c.want
			}
			var o client.Object = &cloudv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "i-1"}}
			switch {
			case strings.Contains(c.args, "--selector"):
				o = selector
			case strings.Contains(c.args, "orders"):
				o = service
			case strings.Contains(c.args, "eni-1"):
				o = nic
			}
			if err := api.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: o.GetName()}, o); err != nil {
				t.Fatal(err)
			}
			if !maps.Equal(o.GetAnnotations(), want) {
				t.Errorf("annotations %v; want %v", o.GetAnnotations(), want)
			}
		})
	}
}
