//go:build linux

package aws

// Alias gives an object a further name. Responses use the newest name. Commands
// refuse names that do not have the form of AWS, such as i-1.
func (w *World) Alias(name, also string) {
	w.t.Helper()
	real := w.names.in(name)
	own := &names{}
	w.names.mutex.RLock()
	for known, moto := range w.names.toMoto {
		own.add(known, moto)
	}
	w.names.mutex.RUnlock()
	own.add(also, real)
	w.names = own // the sample's names stay for the next test
}
