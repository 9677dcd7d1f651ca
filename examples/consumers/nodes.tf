# A managed node group from your own image, for OpenTofu and Terraform.
variable "cluster" {
  type    = string
  default = "my-cluster"
}

variable "ami" {
  type = string
}

variable "node_role_arn" {
  type = string
}

variable "subnet_ids" {
  type = list(string)
}

data "aws_eks_cluster" "this" {
  name = var.cluster
}

resource "aws_launch_template" "nodes" {
  name_prefix            = "nodes-"
  image_id               = var.ami
  instance_type          = "m5.large"
  update_default_version = true

  metadata_options {
    http_tokens                 = "required"
    http_put_response_hop_limit = 2
  }

  user_data = base64encode(<<-EOT
    MIME-Version: 1.0
    Content-Type: multipart/mixed; boundary="BOUNDARY"

    --BOUNDARY
    Content-Type: application/node.eks.aws

    apiVersion: node.eks.aws/v1alpha1
    kind: NodeConfig
    spec:
      cluster:
        name: ${data.aws_eks_cluster.this.name}
        apiServerEndpoint: ${data.aws_eks_cluster.this.endpoint}
        certificateAuthority: ${data.aws_eks_cluster.this.certificate_authority[0].data}
        cidr: ${data.aws_eks_cluster.this.kubernetes_network_config[0].service_ipv4_cidr}
      kubelet:
        flags:
        - --node-labels=example.com/team=storage

    --BOUNDARY--
  EOT
  )
}

resource "aws_eks_node_group" "nodes" {
  cluster_name    = var.cluster
  node_group_name = "nodes"
  node_role_arn   = var.node_role_arn
  subnet_ids      = var.subnet_ids

  launch_template {
    id      = aws_launch_template.nodes.id
    version = aws_launch_template.nodes.latest_version
  }

  scaling_config {
    min_size     = 1
    max_size     = 3
    desired_size = 2
  }

  update_config {
    max_unavailable = 1
  }
}
