package cli

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nephele-io/nephele/internal/enforcer"
)

// controllerMetrics are what the parts of the controller count.
type controllerMetrics struct {
	enforcer *enforcer.Metrics
}

func newControllerMetrics() *controllerMetrics {
	return &controllerMetrics{enforcer: enforcer.NewMetrics()}
}

// publish shows the metrics until withdraw is called. The registry of the library is one for the whole process, in which controllers
// may follow one another.
func (m *controllerMetrics) publish(r prometheus.Registerer) (withdraw func(), err error) {
	if err := r.Register(m.enforcer); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return func() { r.Unregister(m.enforcer) }, nil
}
