package controller

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nephele-io/nephele/internal/apiserver"
	"github.com/nephele-io/nephele/internal/cloud/audit"
	"github.com/nephele-io/nephele/internal/cloud/realize"
	"github.com/nephele-io/nephele/internal/control"
	"github.com/nephele-io/nephele/internal/controller/clouds"
	"github.com/nephele-io/nephele/internal/enforcer"
)

// controllerMetrics are what the parts of the controller count.
type controllerMetrics struct {
	registry prometheus.Registerer
	enforcer *enforcer.Metrics
	policy   *control.Metrics
	realize  *realize.Metrics
	// clouds is the table of the clouds, with what each counts.
	clouds []clouds.Cloud
	audit  *audit.Metrics
	// api are the metrics of the server of this process; nil without one.
	api *apiserver.Metrics
	// shown are those that the registry shows.
	shown []prometheus.Collector
}

func newControllerMetrics(r prometheus.Registerer) *controllerMetrics {
	return &controllerMetrics{
		registry: r,
		enforcer: enforcer.NewMetrics(),
		policy:   control.NewMetrics(),
		realize:  realize.NewMetrics(),
		clouds:   clouds.Table(),
		audit:    audit.NewMetrics(),
	}
}

// show publishes metrics until hideAll. The registry of the library is one for the whole process,
// in which controllers may follow one another.
func (m *controllerMetrics) show(all ...prometheus.Collector) error {
	for _, c := range all {
		if err := m.registry.Register(c); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
		m.shown = append(m.shown, c)
	}
	return nil
}

func (m *controllerMetrics) hideAll() {
	for _, c := range m.shown {
		m.registry.Unregister(c)
	}
	m.shown = nil
}
