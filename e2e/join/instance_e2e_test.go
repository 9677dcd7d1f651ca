//go:build e2e

package join_test

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/imdstest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/join"
	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
)

// instance is a running machine with its identity in AWS.
type instance struct {
	*lab.Node
	join.Identity
}

// launch starts an instance from an image. role is the role of its instance
// profile: the clusters may map different roles.
func (w *world) launch(id, image, role string, userData []byte) *instance {
	w.t.Helper()
	return w.launchCut(id, image, role, userData, cut{})
}

// cut is a failure of an instance's network in the middle of its first boot.
type cut struct {
	// at is the metadata path whose first reading starts the failure: the response
	// and all later packets are lost.
	at string
	// over reports whether the network comes back now. It is called until it
	// returns true, with the number of lost packets of the instance.
	over func(address netip.Addr, lost int) bool
}

// outage bounds a cut, and the time of a boot during a cut.
const outage = 8 * time.Minute

// launchCut launches an instance whose network fails during the boot. It
// returns when the network is back and the instance accepts the login.
func (w *world) launchCut(id, image, role string, userData []byte, c cut) *instance {
	w.t.Helper()
	return w.start(machine.Config{Image: image, InstanceID: id, UserData: userData}, role, c)
}

func (w *world) start(config machine.Config, role string, c cut) *instance {
	w.t.Helper()
	i := &instance{}
	mended := make(chan error, 1)
	config.Kind = cmp.Or(config.Kind, machine.Node)
	config.Addressed = func(address netip.Addr) {
		var service http.Handler
		i.Identity, service = identity(config.InstanceID, role, address, config.UserData)
		w.identities.Add(i.Identity)
		var once sync.Once
		w.metadata.Answer(address, http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			if c.at != "" && strings.TrimPrefix(r.URL.Path, "/latest/") == c.at {
				once.Do(func() { w.cut(address, c, mended) })
			}
			service.ServeHTTP(out, r)
		}))
	}
	if c.at != "" {
		config.ReadyWithin = outage
	}
	i.Node = w.Start(w.t, config)
	if c.at != "" {
		require.NoError(w.t, <-mended)
	}
	w.step("%s is up", config.InstanceID)
	return i
}

// cut disconnects the machine at an address before it returns, and connects it
// again later.
func (w *world) cut(address netip.Addr, c cut, mended chan<- error) {
	ctx, cancel := context.WithTimeoutCause(w.Ctx, outage, fmt.Errorf("the network of %s did not come back in time", address))
	before, err := w.Sent(ctx, address)
	if err == nil {
		err = w.Cut(ctx, address)
	}
	go func() {
		defer cancel()
		if err == nil {
			err = machine.Poll(ctx, func() error {
				sent, err := w.Sent(ctx, address)
				if err == nil && !c.over(address, sent-before) {
					err = fmt.Errorf("the network stays away after %d lost packets", sent-before)
				}
				return err
			})
		}
		if err == nil {
			err = w.Mend(ctx, address)
		}
		mended <- err
	}()
}

// identity makes an instance with credentials of its own: its identity in AWS,
// and its metadata.
func identity(id, role string, address netip.Addr, userData []byte) (join.Identity, *imdstest.Service) {
	who := join.Identity{
		ID: id, Role: role, PrivateDNSName: lab.NodeName(address),
		AccessKeyID: "ASIA" + rand.Text()[:16], SecretKey: rand.Text(), SessionToken: rand.Text(),
	}
	about := lab.Instance(id, address, userData)
	octets := address.As4()
	about.Role, about.VPCCIDRs = role, []string{fmt.Sprintf("%d.%d.0.0/16", octets[0], octets[1])}
	credentials, err := json.Marshal(map[string]string{
		"Code": "Success", "AccessKeyId": who.AccessKeyID, "SecretAccessKey": who.SecretKey, "Token": who.SessionToken,
		"Expiration": "2036-01-01T00:00:00Z",
	})
	if err != nil {
		panic(err) // a map of strings
	}
	service := imdstest.New(about)
	service.Set(func(s *imdstest.Settings) {
		s.Entries["meta-data/iam/security-credentials/"+role] = string(credentials)
	})
	return who, service
}

func (w *world) end(i *instance) { assert.NoError(w.t, i.Close()) }

// scrubbed scrubs an instance, captures it and ends it.
func (w *world) scrubbed(i *instance, image string) {
	w.t.Helper()
	// The scrub removes the login key, so all commands share one session.
	// cloud-init must be done, because it would write files after the scrub. The
	// instance data is a mount and not part of the disk.
	i.Sh(w.t, "cloud-init status --wait >/dev/null || true; umount -q /var/lib/cloud/seed/nocloud || true; eksnode scrub --yes && eksnode audit")
	i.CaptureTo(w.t, image)
}

// joinsB requires that an instance of the image joins cluster B.
func (w *world) joinsB(id, image string, userData []byte) {
	w.t.Helper()
	i := w.launch(id, image, w.b.role, userData)
	defer w.end(i)
	w.works(w.b, i, id, "word-of-b")
}

func (c *cluster) fill(text string, more ...string) []byte {
	var limit unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	return []byte(strings.NewReplacer(append(more,
		"{cluster}", c.name, "{endpoint}", c.endpoint(), "{ca}", c.authority(), "{pause}", lab.PauseImage(),
		// EKS's value for a container's process, limited to what this host permits.
		"{files}", fmt.Sprint(min(1<<20, limit.Max)),
		"{cgroups}\n", allowCgroupV1(),
	)...).Replace(text))
}

// allowCgroupV1 lets the kubelet of the template run on a host with cgroup v1.
// The kubelet refuses cgroup v1 from 1.35 on.
func allowCgroupV1() string {
	if _, version, err := tools.Find(tools.NameKubelet, ""); err == nil && strings.HasPrefix(version, "1.34.") {
		return ""
	}
	const file = "/etc/kubernetes/kubelet/kubelet-config.json"
	return "grep -q failCgroupV1 " + file + ` || sed -i '1s/{/{\n  "failCgroupV1": false,/' ` + file + "\n"
}

//go:embed testdata/node-config.mime
var nodeConfigTemplate string

// nodeConfig returns the user data of an instance that joins by Amazon Linux
// 2023's contract.
func (c *cluster) nodeConfig() []byte { return c.fill(nodeConfigTemplate) }

// bootstrapScript returns the user data of an instance that joins by Amazon
// Linux 2's contract: a script that calls /etc/eks/bootstrap.sh, which is
// eksnode. The script also changes containerd's template for hosts that may not
// lower the OOM score of processes. The change is not on the disk.
func (c *cluster) bootstrapScript() []byte {
	return c.fill(`#!/bin/sh
set -eu
{cgroups}
sed 's/^\[plugins."io.containerd.grpc.v1.cri"\]$/&\nrestrict_oom_score_adj = true/' /etc/eks/containerd/containerd-config.toml > /run/containerd-lab.toml
/etc/eks/bootstrap.sh {cluster} --apiserver-endpoint {endpoint} --b64-cluster-ca {ca} --dns-cluster-ip 172.20.0.10 --containerd-config-file /run/containerd-lab.toml
`)
}

//go:embed testdata/amazon.sh
var amazonTemplate string

// amazonScript returns user data that joins like Amazon Linux 2's own
// bootstrap.sh, in the steps that matter for a capture: it fills in templates
// with sed, in place, copies a unit, enables the kubelet and starts it. It is
// not a copy of that script. extra are additional arguments of the kubelet.
func (c *cluster) amazonScript(extra string) []byte {
	return c.fill(amazonTemplate, "{extra}", extra)
}
