package apiserver

import (
	"context"
	"errors"
	"math"
	"net"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/nephele-io/nephele/api/system/v1beta1"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
)

// controllerInfos serves the one object in which the controller tells of itself.
type controllerInfos struct {
	resource
	options Options
}

func newControllerInfos(o Options) *controllerInfos {
	group := schema.GroupResource{Group: v1beta1.GroupName, Resource: "controllerinfos"}
	return &controllerInfos{newResource(group, "controllerinfo", false, func() runtime.Object { return &v1beta1.AntreaControllerInfo{} }), o}
}

func (c *controllerInfos) storage() rest.Storage {
	return &readings{
		resource: c.resource, newList: func() runtime.Object { return &v1beta1.AntreaControllerInfoList{} },
		items: func(string) []runtime.Object { return []runtime.Object{c.now()} },
		get:   func(_, name string) (runtime.Object, bool) { return c.now(), name == v1beta1.ControllerInfoName },
		table: c.ConvertToTable,
	}
}

// now returns what is true at present.
func (c *controllerInfos) now() *v1beta1.AntreaControllerInfo {
	info := &v1beta1.AntreaControllerInfo{
		ObjectMeta: metav1.ObjectMeta{Name: v1beta1.ControllerInfoName}, Version: c.options.Version,
		PodRef: referTo("Pod", c.options.Pod), NodeRef: referTo("Node", types.NamespacedName{Name: c.options.Node}),
		ServiceRef:        referTo("Service", c.options.Service),
		ConnectedAgentNum: count(c.options.Store.Watchers(watchstore.AppliedToGroups)),
	}
	if info.PodRef.Name == "" && c.options.Process != "" {
		info.PodRef = v1beta1.ObjectReference{Kind: "Process", Name: c.options.Process}
	}
	if a, ok := c.options.Listener.Addr().(*net.TCPAddr); ok {
		info.APIPort = a.Port
	}
	healthy := v1beta1.ControllerCondition{
		Type: v1beta1.ControllerHealthy, Status: metav1.ConditionTrue, LastHeartbeatTime: metav1.NewTime(c.options.Certificate.clock.Now()),
	}
	if c.options.Queries != nil {
		policies, addressGroups, appliedToGroups, err := c.options.Queries.Computed(context.Background())
		if errors.Is(err, watchstore.ErrNotReady) {
			healthy.Status, healthy.Reason, healthy.Message = metav1.ConditionFalse, "Starting", err.Error()
		}
		info.NetworkPolicyControllerInfo = v1beta1.NetworkPolicyControllerInfo{
			NetworkPolicyNum: count(policies), AddressGroupNum: count(addressGroups), AppliedToGroupNum: count(appliedToGroups),
		}
	}
	info.ControllerConditions = []v1beta1.ControllerCondition{healthy}
	return info
}

// referTo points at an object; without a name it points nowhere.
func referTo(kind string, name types.NamespacedName) v1beta1.ObjectReference {
	if name.Name == "" {
		return v1beta1.ObjectReference{}
	}
	return v1beta1.ObjectReference{Kind: kind, Namespace: name.Namespace, Name: name.Name}
}

func count(n int) int32 { return int32(min(n, math.MaxInt32)) }
