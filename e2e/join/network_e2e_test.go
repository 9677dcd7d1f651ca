//go:build e2e && full

package join_test

import (
	"context"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/join"
	"github.com/eksnode/packer-plugin-eksnode/e2e/mirror"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
)

// retries are so many lost packets that a machine has tried anew.
const retries = 6

// A network that fails in the middle of a first boot, or of provisioning, keeps
// nobody from joining once it is back: what was interrupted tries again by
// itself, or says what is wrong and is done again.
func TestNetworkCut(t *testing.T) {
	w := openWorld(t, "", 30*time.Minute)
	role := "meta-data/iam/security-credentials/" + w.b.Role
	for name, c := range map[string]struct {
		id, at   string
		userData []byte
	}{
		"while user data is read, NodeConfig":           {"i-config", "user-data", w.b.NodeConfig()},
		"while the instance is looked up, bootstrap.sh": {"i-script", "meta-data/local-hostname", w.b.Arguments()},
		"while the kubelet gets its credentials":        {"i-kubelet", role, w.b.NodeConfig()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := w.in(t)
			i, err := w.LaunchCut(w.ctx, c.id, w.image, w.b.Role, c.userData, join.Cut{
				At: c.at, Over: join.Lasts(retries),
			})
			require.NoError(t, err)
			defer w.end(i)
			w.step("%s has its network again", c.id)
			w.works(w.b, i, c.id, "word-of-b")
		})
	}
	t.Run("until the first boot gives up", func(t *testing.T) {
		t.Parallel()
		w.in(t).givesUp("i-long")
	})
	t.Run("in the middle of provisioning, for a while", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		i := w.provisionCut("i-while", join.Lasts(retries))
		w.ended(i, true)
		w.provisioned(i)
	})
	t.Run("in the middle of provisioning, until that gives up", func(t *testing.T) {
		t.Parallel()
		w := w.in(t)
		i := w.provisionCut("i-up", w.until("provision.service"))
		said := w.ended(i, false)
		w.step("provisioning without a network says: %s", said)
		assert.Contains(t, said, "kubelet")
		w.do(i, "! test -e /usr/bin/kubelet")
		w.provision(i)
		w.ended(i, true)
		w.provisioned(i)
	})
}

// until is an outage until a unit of the machine has failed, and others have
// ended.
func (w *world) until(failed string, ended ...string) func(join.Outage) (bool, error) {
	return func(o join.Outage) (bool, error) {
		state, err := o.State(w.ctx, failed)
		if err != nil || state != "failed" {
			return false, err
		}
		for _, unit := range ended {
			if state, err = o.State(w.ctx, unit); err != nil || state == "inactive" || state == "activating" {
				return false, err
			}
		}
		return true, nil
	}
}

// givesUp cuts a first boot off for longer than it waits: it fails, starts no
// kubelet, and says why; the next boot joins.
func (w *world) givesUp(id string) {
	w.t.Helper()
	i, err := w.LaunchCut(w.ctx, id, w.image, w.b.Role, w.b.NodeConfig(), join.Cut{
		At: "user-data", Over: w.until("eksnode-config.service", "eksnode-run.service"),
	})
	require.NoError(w.t, err)
	defer w.end(i)
	said := w.do(i, "journalctl --boot --no-pager --output=cat --unit='eksnode-*'")
	w.step("a first boot without a network says: %s", said)
	assert.Contains(w.t, said, "asking the instance metadata service for ")
	assert.Contains(w.t, said, "is its network up")
	assert.Equal(w.t, "inactive", w.do(i, "systemctl is-active kubelet || true"))
	assert.Contains(w.t, w.do(i, "eksnode diagnose || [ $? = 1 ]"), "the instance metadata service does not answer")
	require.NoError(w.t, i.PowerOff(w.ctx))
	require.NoError(w.t, i.Boot(w.ctx))
	w.works(w.b, i, id, "word-of-b")
}

// provisionCut takes the kubelet off an instance, starts to provision it again
// from a slow mirror, and cuts its network in the middle of the kubelet.
func (w *world) provisionCut(id string, over func(join.Outage) (bool, error)) *join.Instance {
	w.t.Helper()
	i := w.launch(id, w.image, w.b, nil)
	w.t.Cleanup(func() { w.end(i) })
	w.do(i, "rm /usr/bin/kubelet")
	w.provision(i)
	require.NoError(w.t, join.Poll(w.ctx, func() error {
		_, err := i.Do(w.ctx, "find /usr/bin -name '.kubelet.eksnode-*' -size +1024 | grep -q .")
		return err
	}))
	require.NoError(w.t, w.Interrupt(w.ctx, i, over))
	return i
}

// provision starts to provision an instance, as a unit of its own.
func (w *world) provision(i *join.Instance) {
	w.t.Helper()
	_, version, err := tools.Find(tools.NameCredentialProvider, "")
	require.NoError(w.t, err)
	_, kubelet, err := tools.Find(tools.NameKubelet, "")
	require.NoError(w.t, err)
	w.do(i, "systemctl reset-failed provision 2> /dev/null || true\nsystemd-run --quiet --unit=provision --property=RemainAfterExit=yes eksnode provision --kubernetes-version "+kubelet+
		" --source-url "+w.slowMirror()+" --versions ecr-credential-provider="+version)
}

// slowMirror serves the node's programs in the lab, slowly enough to be caught in
// the middle.
func (w *world) slowMirror() string {
	w.t.Helper()
	assets, err := mirror.Build(w.ctx, mirror.Versions{}, runtime.GOARCH, logWriter{w.t})
	require.NoError(w.t, err)
	listener, err := w.lab.Listen(w.ctx, "tcp", net.JoinHostPort(w.lab.HostAddress(), "0"))
	require.NoError(w.t, err)
	server, err := mirror.ServeOn(w.ctx, listener, assets.Folder, mirror.Options{BytesPerSecond: 1 << 20})
	require.NoError(w.t, err)
	w.t.Cleanup(func() { assert.NoError(w.t, server.Close()) })
	return server.URL()
}

// ended waits for the provisioning to end, well or not, and returns what it said.
func (w *world) ended(i *join.Instance, well bool) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, 5*time.Minute)
	defer cancel()
	var state string
	require.NoError(w.t, join.Poll(ctx, func() (err error) {
		state, err = i.Do(ctx, "systemctl is-failed provision || systemctl show --property=SubState --value provision | grep -q exited")
		return err
	}))
	said := w.do(i, "journalctl --boot --no-pager --output=cat --unit=provision | tail -20")
	assert.Equal(w.t, well, state != "failed", said)
	return said
}

// provisioned requires that an image of the instance is clean and joins.
func (w *world) provisioned(i *join.Instance) {
	w.t.Helper()
	image := filepath.Join(w.lab.Folder(), i.InstanceID()+".raw")
	require.NoError(w.t, w.scrubbed(i, image))
	w.joinsB("i-of-"+strings.TrimPrefix(i.InstanceID(), "i-"), image)
}
