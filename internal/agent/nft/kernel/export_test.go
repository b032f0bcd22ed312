package kernel

// SettingsIn has the wiring read settings of the kernel elsewhere.
func (w *Wiring) SettingsIn(dir string) { w.proc = dir }
