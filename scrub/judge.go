package scrub

import (
	"fmt"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// neededPlaces maps places that must stay on this machine to the reason.
type neededPlaces map[string]string

// neededHere returns the homes of people and the files that the manifest
// records.
func neededHere(h *host.Host) (neededPlaces, error) {
	needed := neededPlaces{}
	add := func(name, why string, follow bool) error {
		_, place, err := h.Trail(name, follow)
		if err == nil && place != "/" {
			needed[place] = why
		}
		return err
	}
	accounts, err := h.Content("/etc/passwd")
	if err != nil {
		return nil, err
	}
	for _, a := range rule.ParseAccounts(string(accounts)) {
		if !rule.IsPerson(a.UID) {
			continue
		}
		if err := add(a.Home, fmt.Sprintf("home of %.80q", a.Name), true); err != nil {
			return nil, err
		}
	}
	m, err := manifest.Load(h)
	if err != nil || m == nil {
		return needed, err
	}
	for _, name := range m.Paths() {
		if err := add(name, "the image's manifest records it", false); err != nil {
			return nil, err
		}
	}
	return needed, nil
}

// check refuses a needed place and every folder above one.
func (n neededPlaces) check(target, place string) error {
	parts := rule.Split(place)
	if len(parts) == 0 {
		return fmt.Errorf("%s is %s on this machine and %w", target, place, rule.ErrTooHigh)
	}
	if err := rule.CheckNeeded(parts, func(part, name string) bool { return part == name }); err != nil {
		return fmt.Errorf("%s is %s on this machine and %w", target, place, err)
	}
	for name, why := range n {
		if rule.Within(place, name) {
			return fmt.Errorf("removing %s would remove %s, which must stay: %s; list other files instead", target, name, why)
		}
	}
	return nil
}
