//go:build e2e

package join_test

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/arguments"
	"github.com/eksnode/packer-plugin-eksnode/e2e/join"
	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/imdstest"
)

// instance is a running machine with the identity that AWS gives it.
type instance struct {
	*lab.Node
	join.Identity
}

// launch starts an instance from an image. Role is the name of its instance
// profile's role: the clusters need not map the same ones.
func (w *world) launch(id, image, role string, userData []byte) *instance {
	w.t.Helper()
	return w.launchCut(id, image, role, userData, cut{})
}

// cut is a failure of an instance's network in the middle of its first boot.
type cut struct {
	// at is the entry of the instance's metadata at whose first reading the
	// network goes: the answer is lost, and all that follows.
	at string
	// over says whether the network comes back now. It is asked until it does, with
	// the number of packets that the instance has sent in vain.
	over func(address netip.Addr, lost int) bool
}

// outage bounds a cut, and what a machine may take to boot through one.
const outage = 8 * time.Minute

// launchCut is launch of an instance whose network fails meanwhile. It returns
// when the network is back and the instance lets us in.
func (w *world) launchCut(id, image, role string, userData []byte, c cut) *instance {
	w.t.Helper()
	i := &instance{}
	mended := make(chan error, 1)
	config := machine.Config{Kind: machine.Node, Image: image, InstanceID: id, UserData: userData}
	config.Addressed = func(address netip.Addr) {
		var service http.Handler
		i.Identity, service = identity(id, role, address, userData)
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
	w.step("%s is up", id)
	return i
}

// cut cuts the machine at an address off before it returns, and connects it again
// later.
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

// identity makes an instance, with credentials of its own: whom AWS takes it for,
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
		panic(err) // a map of texts
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
	// One session: the scrub takes the key away that lets us in. What cloud-init
	// has not written yet it would write afterwards. The instance data is a mount,
	// which is no part of the disk.
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

// pauseImage is what the instances' containerd asks EKS's registry for.
func pauseImage() string {
	return "602401143452.dkr.ecr.eu-west-1.amazonaws.com/eks/pause:" + arguments.New().PauseVersion
}

// fill fills a cluster into user data.
func (c *cluster) fill(text string, more ...string) []byte {
	ca, err := os.ReadFile(c.path("ca.crt"))
	if err != nil {
		panic(err) // the cluster was started
	}
	var limit unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	return []byte(strings.NewReplacer(append(more,
		"{cluster}", c.name, "{endpoint}", c.endpoint(), "{ca}", base64.StdEncoding.EncodeToString(ca), "{pause}", pauseImage(),
		// What EKS gives a container's process, or what this host may give.
		"{files}", fmt.Sprint(min(1<<20, limit.Max)),
		"{cgroups}\n", allowCgroupV1(),
	)...).Replace(text))
}

// allowCgroupV1 lets the kubelet of the template run where the host has cgroup v1,
// which it refuses from 1.35 on.
func allowCgroupV1() string {
	if _, version, err := tools.Find(tools.NameKubelet, ""); err == nil && strings.HasPrefix(version, "1.34.") {
		return ""
	}
	return `sed -i '0,/{/s//{"failCgroupV1": false,/' /etc/kubernetes/kubelet/kubelet-config.json` + "\n"
}

//go:embed testdata/node-config.mime
var nodeConfigTemplate string

// nodeConfig is the user data of an instance that joins by Amazon Linux 2023's
// contract.
func (c *cluster) nodeConfig() []byte { return c.fill(nodeConfigTemplate) }

// bootstrapScript is the user data of an instance that joins by Amazon Linux 2's
// contract: a script that calls /etc/eks/bootstrap.sh, which is eksnode.
// Containerd's template gets what hosts need that may not lower the OOM score of
// their processes; it is not on the disk.
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

// amazonScript is user data that joins as Amazon Linux 2's own bootstrap.sh does,
// in the steps that matter to whoever captures the machine afterwards: it fills
// templates in with sed, in place, copies a unit, enables the kubelet and starts
// it. It is no copy of that script; extra are the kubelet's extra arguments.
func (c *cluster) amazonScript(extra string) []byte {
	return c.fill(amazonTemplate, "{extra}", extra)
}
