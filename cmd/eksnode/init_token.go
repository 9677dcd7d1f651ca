package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/firstboot"
)

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
	cmd := &cobra.Command{
		Use:     "token --cluster-name CLUSTER",
		Short:   "Print a token for the API server of a cluster",
		Example: "  eksnode token --cluster-name my-cluster --region eu-west-1",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cluster == "" {
				cluster = id
			}
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
		},
	}
	f := cmd.Flags()
	f.StringVar(&cluster, "cluster-name", "", "cluster name; on an Outpost, the cluster ID")
	f.StringVarP(&id, "cluster-id", "i", "", "alias of --cluster-name, as in aws-iam-authenticator")
	f.StringVar(&region, "region", "", "AWS region of the cluster (default: AWS_REGION, or the region of the instance)")
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

// execVersion returns the API version from info, the value of KUBERNETES_EXEC_INFO.
func execVersion(info string) string {
	var asked struct {
		APIVersion string `json:"apiVersion"`
	}
	if json.Unmarshal([]byte(info), &asked) == nil && asked.APIVersion != "" {
		return asked.APIVersion
	}
	return "client.authentication.k8s.io/v1beta1"
}
