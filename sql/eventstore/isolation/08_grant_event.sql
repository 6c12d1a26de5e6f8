-- What the role needs: to read and append through the parent. It has no right on any partition, where the policy would
-- not hold.
GRANT SELECT, INSERT ON public.event TO app_role
