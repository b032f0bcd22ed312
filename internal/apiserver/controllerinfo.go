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

	antreav1beta1 "github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/api/system/v1beta1"
	"github.com/nephele-io/nephele/internal/apiserver/storage"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
)

// controllerInfos serves the one object in which the controller describes itself.
type controllerInfos struct {
	storage.Resource
	options Options
}

func newControllerInfos(o Options) *controllerInfos {
	group := schema.GroupResource{Group: v1beta1.GroupName, Resource: "controllerinfos"}
	return &controllerInfos{storage.New(group, "controllerinfo", false, func() runtime.Object { return &v1beta1.AntreaControllerInfo{} }), o}
}

func (c *controllerInfos) storage() rest.Storage {
	return &storage.Readings{
		Resource: c.Resource, Lists: func() runtime.Object { return &v1beta1.AntreaControllerInfoList{} },
		Items:  func(string) []runtime.Object { return []runtime.Object{c.now()} },
		Object: func(_, name string) (runtime.Object, bool) { return c.now(), name == v1beta1.ControllerInfoName },
		Table:  c.ConvertToTable,
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
		Type: v1beta1.ControllerHealthy, Status: metav1.ConditionTrue, LastHeartbeatTime: metav1.NewTime(c.options.Certificate.Clock().Now()),
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

// Info implements infos.Server.
func (s *Server) Info() *antreav1beta1.AntreaControllerInfo {
	from := newControllerInfos(s.Options).now()
	out := &antreav1beta1.AntreaControllerInfo{
		ObjectMeta: metav1.ObjectMeta{Name: antreav1beta1.ControllerInfoName}, Version: from.Version, APIPort: int32(from.APIPort),
		PodRef: stored(from.PodRef), NodeRef: stored(from.NodeRef), ServiceRef: stored(from.ServiceRef),
		NetworkPolicyControllerInfo: antreav1beta1.NetworkPolicyControllerInfo(from.NetworkPolicyControllerInfo),
		ConnectedAgentNum:           from.ConnectedAgentNum,
	}
	for _, c := range from.ControllerConditions {
		out.ControllerConditions = append(out.ControllerConditions, antreav1beta1.ControllerCondition{
			Type: antreav1beta1.ControllerConditionType(c.Type), Status: c.Status, LastHeartbeatTime: c.LastHeartbeatTime, Reason: c.Reason, Message: c.Message,
		})
	}
	return out
}

// stored is a reference as crd.antrea.io has it.
func stored(r v1beta1.ObjectReference) antreav1beta1.ObjectReference {
	return antreav1beta1.ObjectReference{Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}
}
