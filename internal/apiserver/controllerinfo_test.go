package apiserver

import (
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/apiserver/serving"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/platform/certs"
)

// TestInfo: what the controller reports of itself names the Pod, the Node, the Service and the
// port.
func TestInfo(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(time.Now())
	dir, err := certs.Open(t.TempDir(), clk.Now)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := serving.Open(dir, []string{"antrea"}, nil, clk)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	server := &Server{Options: Options{
		Listener: listener, Certificate: certificate, Store: watchstore.New(watchstore.Options{}), Version: "v1",
		Pod: types.NamespacedName{Namespace: "kube-system", Name: "nephele-1"}, Node: "n1", Service: types.NamespacedName{Namespace: "kube-system", Name: "antrea"},
	}}
	want := &v1beta1.AntreaControllerInfo{
		ObjectMeta: metav1.ObjectMeta{Name: v1beta1.ControllerInfoName}, Version: "v1", APIPort: int32(listener.Addr().(*net.TCPAddr).Port),
		PodRef:               v1beta1.ObjectReference{Kind: "Pod", Namespace: "kube-system", Name: "nephele-1"},
		NodeRef:              v1beta1.ObjectReference{Kind: "Node", Name: "n1"},
		ServiceRef:           v1beta1.ObjectReference{Kind: "Service", Namespace: "kube-system", Name: "antrea"},
		ControllerConditions: []v1beta1.ControllerCondition{{Type: v1beta1.ControllerHealthy, Status: metav1.ConditionTrue, LastHeartbeatTime: metav1.NewTime(clk.Now())}},
	}
	if diff := cmp.Diff(want, server.Info()); diff != "" {
		t.Error(diff)
	}
}
