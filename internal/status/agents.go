package status

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/agentinfo"
)

// maxAgents bounds the agents that are listed.
const maxAgents = 20

// Agents counts the agents on hosts and Nodes.
type Agents struct {
	Total int `json:"total"`
	// Healthy say that they are well, and did not long ago.
	Healthy int `json:"healthy"`
	// Wrong are the others, up to a bound, those that were heard of longest ago first.
	Wrong []Agent `json:"wrong"`
}

// Agent is one agent that is not well.
type Agent struct {
	Name string `json:"name"`
	// Host is the Node or the ExternalNode that it runs on.
	Host    string `json:"host,omitempty"`
	Version string `json:"version,omitempty"`
	// LastHeard is when it said something last; absent if it never did.
	LastHeard *metav1.Time `json:"lastHeard,omitempty"`
	// Silent is true if that is longer ago than three heartbeats: what it enforces is not known
	// since.
	Silent  bool   `json:"silent"`
	Message string `json:"message,omitempty"`
}

// agents reads what agents say of themselves, and when they said it: one that has died says nothing
// else than before.
func (g *gathering) agents(ctx context.Context) {
	all := &g.report.Agents
	all.Wrong = []Agent{}
	g.skip("AntreaAgentInfos", each(ctx, g, &v1beta1.AntreaAgentInfoList{}, func(l *v1beta1.AntreaAgentInfoList) {
		for i := range l.Items {
			all.Total++
			if a, well := g.agent(&l.Items[i]); well {
				all.Healthy++
			} else {
				all.Wrong = append(all.Wrong, a)
			}
		}
	}))
	slices.SortFunc(all.Wrong, func(a, b Agent) int {
		return cmp.Or(heard(a).Compare(heard(b)), cmp.Compare(a.Name, b.Name))
	})
	if more := len(all.Wrong) - maxAgents; more > 0 {
		g.attend("agents", "Unhealthy", fmt.Sprintf("%d more agents are not well", more), "kubectl get antreaagentinfos")
		all.Wrong = all.Wrong[:maxAgents]
	}
	for _, a := range all.Wrong {
		about := "agent " + a.Name
		if a.Silent {
			g.attend(about, "Silent", a.Message, "look whether nephele-agent runs on "+cmp.Or(a.Host, "its host")+"; of one that is gone for good, delete the AntreaAgentInfo")
		} else {
			g.attend(about, "Unhealthy", a.Message, "")
		}
	}
}

func heard(a Agent) time.Time {
	if a.LastHeard == nil {
		return time.Time{}
	}
	return a.LastHeard.Time
}

// agent judges one agent.
func (g *gathering) agent(info *v1beta1.AntreaAgentInfo) (Agent, bool) {
	a := agentinfo.Of(info, g.now())
	out := Agent{Name: info.Name, Host: a.Key, Version: a.Version, Silent: a.Silent, Message: a.Message}
	if !a.Heard.IsZero() {
		out.LastHeard = &metav1.Time{Time: a.Heard}
	}
	return out, a.Healthy || a.New
}
