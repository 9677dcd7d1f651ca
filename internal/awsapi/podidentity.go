package awsapi

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
)

// PodIdentity gives the pods of a service account a role.
type PodIdentity struct {
	ID string
	// Role is the ARN of the role. Target is the ARN of another role that Role
	// assumes for the pods, or empty.
	Role, Target string
}

// PodIdentities lists the pod identity associations of a service account.
func (a *AWS) PodIdentities(ctx context.Context, cluster, namespace, account string) ([]PodIdentity, error) {
	doing := fmt.Sprintf("listing the pod identity associations of %s/%s", namespace, account)
	var list []PodIdentity
	pages := eks.NewListPodIdentityAssociationsPaginator(a.eks, &eks.ListPodIdentityAssociationsInput{
		ClusterName: aws.String(cluster), Namespace: aws.String(namespace), ServiceAccount: aws.String(account),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, explain(doing, err)
		}
		for _, in := range page.Associations {
			id := aws.ToString(in.AssociationId)
			doing := "describing the pod identity association " + id
			out, err := a.eks.DescribePodIdentityAssociation(ctx, &eks.DescribePodIdentityAssociationInput{ClusterName: aws.String(cluster), AssociationId: in.AssociationId})
			if err != nil {
				return nil, explain(doing, err)
			}
			if out.Association == nil || aws.ToString(out.Association.RoleArn) == "" {
				return nil, errIncomplete(doing, "role")
			}
			list = append(list, PodIdentity{id, aws.ToString(out.Association.RoleArn), aws.ToString(out.Association.TargetRoleArn)})
		}
	}
	return list, nil
}

// OIDCClients returns the audiences of an OpenID Connect provider of IAM. An error
// for which IsNotFound is true means that IAM has no such provider.
func (a *AWS) OIDCClients(ctx context.Context, provider string) ([]string, error) {
	out, err := a.iam.GetOpenIDConnectProvider(ctx, &iam.GetOpenIDConnectProviderInput{OpenIDConnectProviderArn: aws.String(provider)})
	if err != nil {
		return nil, explain("reading the OpenID Connect provider "+provider, err)
	}
	return out.ClientIDList, nil
}
