package scrub

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

const snapdState = "/var/lib/snapd/state.json"

func snapdRules() []Rule {
	g := []string{"identity", "secrets"}
	return []Rule{
		{
			ID: "snapd-device", Phase: Identity, Groups: g, Verb: plan.Remove,
			Paths: []string{
				"/var/lib/snapd/device/*", "/var/lib/snapd/assertions/asserts-v0/serial/*", "/var/lib/snapd/assertions/asserts-v0/device-session-request/*",
				"/var/lib/snapd/cookie/*", "/var/lib/snapd/cache/*", "/var/lib/snapd/snapshots/*", "/var/lib/snapd/errtracker.db",
			}, Owner: "snapd",
			Why:         "all nodes would be one device at the Snap Store, with the builder machine's private key and serial number",
			Regenerated: "snapd, which creates a key and requests a serial number", Source: "snapd: overlord/devicestate, ensureOperational",
		},
		{
			ID: "snapd-state", Phase: Identity, Groups: g, Verb: plan.Write,
			Paths: []string{snapdState}, Owner: "snapd",
			Why:         "the file has the device's serial number and sessions, and the store logins of people; the list of installed snaps stays",
			Regenerated: "snapd, when it registers the device again", Source: "snapd: overlord/auth, data.auth",
			Find: snapdWithoutDevice,
		},
	}
}

// snapdWithoutDevice plans snapd's state without the device's registration and
// without logins.
func snapdWithoutDevice(_ context.Context, h *host.Host) (plan.Answer, error) {
	if st, err := h.Files.Stat(snapdState); leadsNowhere(err) || err == nil && (!st.Mode().IsRegular() || st.Size() == 0) {
		return plan.Answer{}, nil
	}
	text, err := h.Content(snapdState)
	if err != nil {
		return plan.Answer{}, err
	}
	left, err := withoutDevice(text)
	if err != nil {
		return plan.Finds(snapdState, fmt.Sprintf("not readable as snapd's state (%v), so its serial number and logins stay: repair the file, or remove snapd with its data", err)), nil
	}
	if left == nil {
		return plan.Answer{}, nil
	}
	attr, err := h.Files.Attributes(snapdState)
	if err != nil {
		return plan.Answer{}, err
	}
	return plan.Acts(plan.Action{Verb: plan.Write, Target: snapdState, Reason: "has the builder machine's registration and logins",
		Do: func(context.Context, plan.Progress) error { return h.Files.WriteFile(snapdState, left, attr) }}), nil
}

// withoutDevice removes the registration from snapd's state; nil if there is
// none. Brand and model stay: snapd would otherwise choose others.
func withoutDevice(text []byte) ([]byte, error) {
	state, err := parseObject(text)
	if err != nil {
		return nil, err
	}
	changed, err := state.within("data", func(data *object) (bool, error) {
		return data.within("auth", func(auth *object) (bool, error) {
			return auth.within("device", func(device *object) (bool, error) {
				return device.removeAll("serial", "key-id", "session-macaroon"), nil
			}, "users", "macaroon-key")
		})
	})
	if err != nil || !changed {
		return nil, err
	}
	return state.compact()
}

func (o *object) within(key string, change func(*object) (bool, error), beside ...string) (bool, error) {
	changed := o.removeAll(beside...)
	raw, ok := o.get(key)
	if !ok || string(raw) == "null" {
		return changed, nil
	}
	inner, err := parseObject(raw)
	if err != nil {
		return false, fmt.Errorf("%s: %w", key, err)
	}
	inside, err := change(inner)
	if err != nil {
		return false, fmt.Errorf("%s: %w", key, err)
	}
	if !inside {
		return changed, nil
	}
	if o.values[key], err = inner.compact(); err != nil {
		return false, fmt.Errorf("%s: %w", key, err)
	}
	return true, nil
}

func (o *object) removeAll(keys ...string) bool {
	changed := false
	for _, key := range keys {
		changed = o.remove(key) || changed
	}
	return changed
}

// compact returns the object as snapd writes it: in one line.
func (o *object) compact() (json.RawMessage, error) {
	text, err := o.text()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = json.Compact(&b, text)
	return b.Bytes(), err
}
