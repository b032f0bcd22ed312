package kernel

// LogRate and LogBurst bound how often one rule logs.
const (
	LogRate  = logRate
	LogBurst = logBurst
)

// SettingsIn has the wiring read settings of the kernel elsewhere.
func (w *Wiring) SettingsIn(dir string) { w.proc = dir }
