//go:build !linux

package host

// Space returns how much can be written; see the Linux build.
func (*Files) Space(string) (Space, error) { return Space{}, errNotLinux }
