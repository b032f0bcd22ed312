package hub

import "github.com/nephele-io/nephele/internal/clusterset/hub/records"

// believed is what the hub believes of its members, to be recorded.
type believed struct{ hub *Hub }

// Versions implements records.Believed.
func (b believed) Versions() map[string]uint64 {
	h := b.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	out := map[string]uint64{}
	for name := range h.clusters {
		if h.union.Counts(name).Heard {
			out[name] = h.union.Version(name)
		}
	}
	return out
}

// Content implements records.Believed.
func (b believed) Content(name string, parts int) (records.Content, bool) {
	h := b.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.clusters[name]
	if m == nil {
		return records.Content{}, false
	}
	return records.Content{UID: string(m.cluster.UID), Version: h.union.Version(name), Parts: h.union.Records(name, parts)}, true
}
