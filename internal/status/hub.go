package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// HubNamespace, HubName and HubKey are where the processes of one hub publish which of them
// answers: a ConfigMap, and the key in it of a HubProcesses as JSON.
const (
	HubNamespace = "kube-system"
	HubName      = "nephele-hub"
	HubKey       = "processes"
)

// HubPause is how often at least that is told.
const HubPause = time.Minute

// maxHubProcesses bounds what is read of it.
const maxHubProcesses = 20

// HubProcesses are the processes that are one hub on one database.
type HubProcesses struct {
	// At is when it was told.
	At        metav1.Time  `json:"at"`
	Processes []HubProcess `json:"processes"`
}

// HubProcess is one of them.
type HubProcess struct {
	Name string `json:"name"`
	Peer string `json:"peer"`
	// Counts is false for one that is catching up, which nobody waits for yet.
	Counts  bool `json:"counts"`
	Answers bool `json:"answers"`
}

// Hub is how many processes of the hub there are, how many of them have to answer, and how many do.
type Hub struct {
	Processes int `json:"processes"`
	Needed    int `json:"needed"`
	Answering int `json:"answering"`
	// Away are those that do not answer.
	Away []string `json:"away,omitempty"`
}

// Count counts them.
func (h *HubProcesses) Count() Hub {
	var out Hub
	for _, p := range h.Processes {
		switch {
		case p.Counts && p.Answers:
			out.Answering++
		case !p.Answers:
			name := p.Name
			if name == "" {
				name = p.Peer
			}
			out.Away = append(out.Away, name)
		}
		if p.Counts {
			out.Processes++
		}
	}
	out.Needed = out.Processes/2 + 1
	return out
}

// Text says it in words.
func (h Hub) Text() string {
	text := fmt.Sprintf("%d of %d answer, and %d are needed", h.Answering, h.Processes, h.Needed)
	if len(h.Away) > 0 {
		text += "; away: " + strings.Join(h.Away, ", ")
	}
	return text
}

// readHub reads what is told of the processes of a hub.
func readHub(text string) (*HubProcesses, error) {
	var h HubProcesses
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		return nil, err
	}
	if len(h.Processes) == 0 || len(h.Processes) > maxHubProcesses {
		return nil, fmt.Errorf("%d processes, want 1 to %d", len(h.Processes), maxHubProcesses)
	}
	for _, p := range h.Processes {
		if len(p.Name)+len(p.Peer) > 300 {
			return nil, errors.New("a name that is too long")
		}
	}
	return &h, nil
}

// hub reads how many processes of the hub answer, where it is several.
func (g *gathering) hub(ctx context.Context) {
	const about = "hub"
	var o corev1.ConfigMap
	err := g.Get(ctx, client.ObjectKey{Namespace: HubNamespace, Name: HubName}, &o)
	if apierrors.IsNotFound(err) {
		return
	}
	if err == nil {
		var told *HubProcesses
		if told, err = readHub(o.Data[HubKey]); err == nil {
			h := told.Count()
			g.report.Hub = &h
			switch silent := g.now().Sub(told.At.Time); {
			case silent > 3*HubPause:
				g.attend(about, "NotTold", fmt.Sprintf("nothing was told of its processes for %s: %s", silent.Truncate(time.Minute), h.Text()), "nephele hub list, where one of them runs")
			case len(h.Away) > 0:
				g.attend(about, "ProcessAway", h.Text(), "start it again or, if it is lost: nephele hub remove NAME, and add another one")
			}
			return
		}
	}
	g.skip("ConfigMap "+HubNamespace+"/"+HubName, err)
}
