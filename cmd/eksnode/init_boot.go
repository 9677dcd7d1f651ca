package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/firstboot"
)

// elsewhere is the wait for a metadata service on machines that are not EC2
// instances. A machine that imitates EC2 has the service as soon as the network is
// up.
const elsewhere = time.Second

// mayJoin reports whether a booting machine may have a NodeConfig: in a file, in the
// cache of this boot, or in the metadata service.
func (i *initFlags) mayJoin(ctx context.Context, h *host.Host, service *firstboot.Metadata, log func(string)) (
	bool, error) {
	files := slices.DeleteFunc(slices.Clone(i.sources), func(s string) bool { return s == nodeconfig.UserDataSource })
	if len(files) > 0 {
		if _, err := load(ctx, h, files, nil, func(string) {}); !errors.Is(err, nodeconfig.ErrNone) {
			service.AtBoot(log)
			return true, nil // also if the file is invalid: resolve reports the error
		}
	}
	found := false
	if i.cache != "" {
		var err error
		if found, err = h.Exists(i.cache); err != nil {
			return false, fmt.Errorf("looking for the cache of this boot: %w", err)
		}
	}
	if found {
		service.AtBoot(log)
		return true, nil
	}
	return awaitIMDS(ctx, h, service, elsewhere, log)
}

// awaitIMDS reports whether the machine has a metadata service, and makes the client
// patient. An EC2 instance always has this service, even if it starts late. On other
// machines awaitIMDS waits for patience.
func awaitIMDS(ctx context.Context, h *host.Host, service *firstboot.Metadata, patience time.Duration,
	log func(string)) (bool, error) {
	is, why, err := bootstrap.IsEC2(h)
	if err != nil {
		return false, err
	}
	if !is {
		if err := service.Probe(ctx, patience); err != nil {
			if ctx.Err() != nil {
				return false, err
			}
			log(fmt.Sprintf("nothing to do: this is not an EC2 instance (%s), and no instance metadata service "+
				"answers", why))
			return false, nil
		}
	}
	service.AtBoot(log)
	return true, nil
}

// api adapts firstboot.Node to bootstrap.AWS.
type api struct{ *firstboot.Node }

// awsFor returns a function that makes the AWS clients. The clients use the
// instance's role unless the environment contains other credentials.
func awsFor(service *firstboot.Metadata, log func(string)) func(context.Context, map[string]string) (
	bootstrap.AWS, error) {
	return func(ctx context.Context, environment map[string]string) (bootstrap.AWS, error) {
		if err := adopt(environment); err != nil {
			return nil, err
		}
		n, err := firstboot.OpenNode(ctx, service)
		if err != nil {
			return nil, err
		}
		n.Log = log
		return api{n}, nil
	}
}

// adopt sets the variables for the connection to AWS, such as proxies, in the
// environment of this process. The SDK and the kubelet's credential provider read
// them there. Amazon's nodeadm does the same.
func adopt(environment map[string]string) error {
	others := []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"}
	for name, value := range environment {
		if !strings.HasPrefix(name, "AWS_") && !slices.Contains(others, strings.ToUpper(name)) {
			continue
		}
		if err := os.Setenv(name, value); err != nil {
			return fmt.Errorf("setting spec.instance.environment.default.%s: %w", name, err)
		}
	}
	return nil
}

func (a api) InstanceLimits(ctx context.Context, region, instanceType string) (bootstrap.Limits, error) {
	l, err := a.Node.InstanceLimits(ctx, region, instanceType)
	return bootstrap.Limits(l), err
}

func (a api) DescribeCluster(ctx context.Context, region, name string, attempts int) (bootstrap.Described, error) {
	c, err := a.Node.DescribeCluster(ctx, region, name, describeAttempts(attempts))
	return bootstrap.Described(c), err
}

// describeAttempts is the number of attempts in which DescribeCluster takes as long as
// Amazon Linux 2's script with a number of retries: it pauses for 10 s, 20 s, 40 s and
// so on; firstboot's pauses are 10 s from the sixth.
func describeAttempts(retries int) int {
	if retries == 0 {
		return 1
	}
	seconds := 10 * (1<<min(retries, 6) - 1)
	return max(retries+1, 7+(seconds-15)/10)
}

// execInfo is the variable with which the kubelet passes its version of the credential
// protocol.
const execInfo = "KUBERNETES_EXEC_INFO"

// execCredential is the output of a client-go credential plugin. Source:
// https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins.
type execCredential struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Spec       struct{} `json:"spec"`
	Status     struct {
		ExpirationTimestamp time.Time `json:"expirationTimestamp"`
		Token               string    `json:"token"`
	} `json:"status"`
}

// tokenCommand prints a token that proves the node's identity to a cluster. The
// kubeconfig that init writes runs this command. The flags of aws-iam-authenticator
// are accepted too.
func tokenCommand() *cobra.Command {
	var cluster, id, region string
	cmd := newCommand("token --cluster-name CLUSTER", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		cluster = cmp.Or(cluster, id)
		if cluster == "" {
			return errors.New("--cluster-name is missing; name the EKS cluster that the token is for")
		}
		token, expires, err := token(cmd.Context(), region, cluster)
		if err != nil {
			return err
		}
		out := execCredential{APIVersion: execVersion(os.Getenv(execInfo)), Kind: "ExecCredential"}
		out.Status.Token, out.Status.ExpirationTimestamp = token, expires.UTC().Truncate(time.Second)
		return json.NewEncoder(cmd.OutOrStdout()).Encode(out)
	})
	bind(cmd, targets{"cluster-name": &cluster, "cluster-id,i": &id, "region": &region})
	return cmd
}

// token returns a token and its expiry. It reads the region from the metadata service
// only if no other region is set.
func token(ctx context.Context, region, cluster string) (token string, expires time.Time, err error) {
	service, err := firstboot.OpenMetadata(ctx)
	if err != nil {
		return "", time.Time{}, err
	}
	n, err := firstboot.OpenNode(ctx, service)
	if err != nil {
		return "", time.Time{}, err
	}
	if region = cmp.Or(region, n.Region()); region == "" {
		if region, err = bootstrap.Region(ctx, service); err != nil {
			return "", time.Time{}, err
		}
	}
	return n.Token(ctx, region, cluster)
}

func execVersion(info string) string {
	var asked struct {
		APIVersion string `json:"apiVersion"`
	}
	if json.Unmarshal([]byte(info), &asked) == nil && asked.APIVersion != "" {
		return asked.APIVersion
	}
	return "client.authentication.k8s.io/v1beta1"
}
