package bootstrap

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/machine"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/node"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/containerd"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// pullAttempts is the number of attempts to pull the pause image. Credentials and
// routes may become available some seconds after boot.
const pullAttempts = 8

// pause pulls or imports the pause image; no pod starts without this image. The
// kubelet does not pull the pause image, and containerd has no credentials for
// EKS's registry.
type pause struct {
	node *node.Node
	wait time.Duration
}

func (pause) ID() string { return "pause-image" }

// Phase implements plan.Item. The kubelet starts even if the import failed: a node
// that joins without pods is easier to repair than a missing one.
func (p pause) Phase() string {
	if p.isLocal() {
		return startServices
	}
	return "images"
}

func (p pause) isLocal() bool { return p.node.Containerd.PauseImage == containerd.PauseImage }

func ctr(args ...string) host.Command {
	return host.Command{Argv: append([]string{"ctr", "--namespace", containerd.Namespace, "images"}, args...)}
}

// registries is the folder of the registry's credentials during a pull.
const registries = "/run/eksnode/registries"

// Plan implements plan.Item. Done means that containerd has the image and that no
// credentials are left. An image from the archive must also be pinned.
func (p pause) Plan(ctx context.Context, h *host.Host) (plan.Answer, error) {
	image := p.node.Containerd.PauseImage
	filter := "name==" + image
	if p.isLocal() {
		filter += `,labels."io.cri-containerd.pinned"==pinned`
	}
	out, err := h.Run(ctx, ctr(append(p.listing(), filter)...))
	if err != nil {
		return plan.Answer{}, fmt.Errorf("listing the pause image in containerd: %w", err)
	}
	left, err := plan.Absent(h, "an interrupted pull left the registry's credentials", registries)
	if err != nil || strings.TrimSpace(string(out)) == image {
		return plan.Acts(left...), err
	}
	if p.isLocal() {
		return plan.Acts(append(left, plan.Action{Verb: plan.Run, Target: "import " + containerd.PauseArchive,
			Reason: "the pause image is missing or not pinned in containerd, and no pod starts without this image",
			Do: func(ctx context.Context, _ plan.Progress) error {
				if _, err := h.Run(ctx, ctr(append(p.unpacking("import"), containerd.PauseArchive)...)); err != nil {
					return err
				}
				_, err := h.Run(ctx, ctr("label", image, containerd.Pinned))
				return err
			}})...), nil
	}
	return plan.Acts(plan.Action{Verb: plan.Fetch, Target: image, Reason: "no pod starts without it",
		Do: func(ctx context.Context, _ plan.Progress) error {
			return p.pull(ctx, h, image)
		}}), nil
}

// listing returns the arguments of ctr that list an image which is ready. The SOCI
// snapshotter needs the image unpacked in its own store: otherwise containerd 2.2.3
// and newer request the image's layers from the registry, without credentials
// (amazon-eks-ami #2717).
func (p pause) listing() []string {
	if p.node.Containerd.SOCI {
		return []string{"check", "--quiet", "--snapshotter", sociName}
	}
	return []string{"list", "--quiet"}
}

const sociName = "soci"

// unpacking returns the arguments of ctr for a verb that unpacks an image. ctr itself
// does the work, because containerd's transfer service unpacks into the default
// snapshotter only. The layers stay: without them the image is incomplete.
func (p pause) unpacking(verb string) []string {
	if !p.node.Containerd.SOCI {
		return []string{verb}
	}
	args := []string{verb, "--local", "--snapshotter", sociName}
	if verb == "import" {
		args = append(args, "--discard-unpacked-layers=false")
	}
	return args
}

func (p pause) pull(ctx context.Context, h *host.Host, image string) error {
	wait := p.wait
	for attempt := 1; ; attempt++ {
		err := p.pullOnce(ctx, h, image)
		if err == nil {
			return nil
		}
		if attempt == pullAttempts {
			return fmt.Errorf("pulling the pause image, %d attempts: %w; the node's role needs "+
				"AmazonEC2ContainerRegistryPullOnly, and the node a route to the registry", attempt, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("pulling the pause image: %w (last: %w)", context.Cause(ctx), err)
		case <-time.After(wait):
		}
		wait = min(2*wait, 10*time.Second)
	}
}

// pullOnce passes the credentials in a file that only root can read, because all
// users can read the arguments of a process.
func (p pause) pullOnce(ctx context.Context, h *host.Host, image string) error {
	args := append(p.unpacking("pull"), "--label", containerd.Pinned)
	registry, _, _ := strings.Cut(image, "/")
	if p.node.Machine.CredentialProvider && isECR(registry) {
		user, password, err := credentials(ctx, h, image)
		if err != nil {
			return err
		}
		hosts := fmt.Appendf(nil, "server = \"https://%[1]s\"\n\n[host.\"https://%[1]s\"]\ncapabilities = "+
			"[\"pull\", \"resolve\"]\n\n[host.\"https://%[1]s\".header]\nauthorization = \"Basic %[2]s\"\n",
			registry, base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
		if err := h.Files.WriteFile(path.Join(registries, registry, "hosts.toml"), hosts,
			host.Attributes{Mode: 0o600}); err != nil {
			return fmt.Errorf("writing the registry's credentials: %w", err)
		}
		args = append(args, "--hosts-dir", registries)
	}
	_, err := h.Run(ctx, ctr(append(args, image)...))
	if _, removed := h.Files.RemoveTree(registries); removed != nil {
		err = errors.Join(err, fmt.Errorf("removing the registry's credentials: %w", removed))
	}
	return err
}

// isECR reports whether registry is a private ECR registry. PAUSE_CONTAINER_IMAGE
// may name another registry, which is used without credentials.
func isECR(registry string) bool {
	return strings.Contains(registry, ".dkr.ecr") || strings.Contains(registry, ".dkr-ecr")
}

// credentials runs the kubelet's credential provider.
func credentials(ctx context.Context, h *host.Host, image string) (user, password string, err error) {
	const version = "credentialprovider.kubelet.k8s.io/v1"
	request, err := json.Marshal(map[string]string{"kind": "CredentialProviderRequest", "apiVersion": version,
		"image": image})
	if err != nil {
		return "", "", fmt.Errorf("requesting registry credentials: %w", err)
	}
	out, err := h.Run(ctx, host.Command{
		Argv:  []string{path.Join(machine.CredentialProviderFolder, machine.CredentialProviderName)},
		Stdin: bytes.NewReader(request),
	})
	if err != nil {
		return "", "", fmt.Errorf("requesting registry credentials: %w", err)
	}
	var response struct {
		Auth map[string]struct{ Username, Password string } `json:"auth"`
	}
	if err := json.Unmarshal(out, &response); err != nil {
		return "", "", fmt.Errorf("reading the credential provider's response: %w", err)
	}
	for _, a := range response.Auth {
		return a.Username, a.Password, nil
	}
	return "", "", errors.New("the credential provider returned no credentials for " + image)
}
